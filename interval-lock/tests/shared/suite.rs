//! The shared suite, with stricter tests of fairness: no try overtakes a waiting writer, and
//! this lock can tell when a thread waits.

pub(crate) use crate::shared::*;

pub(crate) mod fairness {
    use spanlock_interval_lock::IntervalLock;
    use spanlock_range_lock::RangeLockExt;

    pub(crate) use crate::shared::fairness::*;

    pub(crate) fn a_waiting_writer_is_passed_a_bounded_number_of_times(
        kind: &crate::shared::Kind<IntervalLock>,
    ) {
        let lock = kind.lock();
        for _ in 0..20 {
            let in_the_way = lock.read(kind.units(0..1)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| drop(lock.write(kind.units(0..1)).unwrap()));
                // This lock can tell when the writer waits.
                while lock.waiting() == 0 {
                    std::thread::yield_now();
                }
                for _ in 0..100 {
                    assert!(lock.try_read(kind.units(0..1)).is_err());
                }
                assert_eq!(lock.waiting(), 1, "granted while a reader holds");
                drop(in_the_way);
            });
            kind.assert_free(&lock);
        }
    }

    pub(crate) fn writers_are_served_in_order_of_arrival(kind: &crate::shared::Kind<IntervalLock>) {
        let lock = kind.lock();
        let order = std::sync::Mutex::new(Vec::new());
        for _ in 0..20 {
            order.lock().unwrap().clear();
            let in_the_way = lock.read(kind.units(0..1)).unwrap();
            std::thread::scope(|scope| {
                for number in 0..3 {
                    let (lock, order) = (&lock, &order);
                    scope.spawn(move || {
                        let hold = lock.write(kind.units(0..1)).unwrap();
                        order.lock().unwrap().push(number);
                        drop(hold);
                    });
                    // No later request arrives after the release, so none overtakes.
                    while lock.waiting() <= number {
                        std::thread::yield_now();
                    }
                }
                drop(in_the_way);
            });
            assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
            kind.assert_free(&lock);
        }
    }
}
