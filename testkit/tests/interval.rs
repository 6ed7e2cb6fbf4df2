use spanlock_interval::IntervalLock;
use spanlock_testkit::*;
fn make() -> Driven { driven!(IntervalLock::new(); wait, downgrade, upgrade, upgrade_wait, split) }
#[test] fn one() { histories::of_one_thread(make, Order::Arrival); }
#[test] fn one_loose() { histories::of_one_thread(make, Order::Bounded); }
#[test] fn threads() { histories::of_real_threads(make); }
