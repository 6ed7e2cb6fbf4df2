//! The models of the record locks: programs of two threads here, and random ones in [`random`].
//!
//! All state changes under one mutex, so what they check is what happens between two calls of it:
//! who is woken, who passes whom, and what a request that ends leaves behind.

mod random;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll};
use std::time::Instant;

use spanlock_record_lock::{Error, Mode, Owner, RecordLock, Request};
use spanlock_sync::{Mutex, Park, Parker};
use spanlock_testkit::models::data::Data;
use spanlock_verify::{Program, Suite, note};

fn main() -> ExitCode {
    let programs = [
        exclusion(),
        disjoint(),
        try_passes(),
        deadline(),
        cancel(),
        cancel_called(),
        crosswise(),
        late_circle(),
        release_frees(),
        release_ends_wait(),
        random::program(),
    ];
    let pairs = PAIRS.iter().map(|&(first, second)| pair(first, second));
    let suite = Suite::new("record-lock").programs(programs);
    spanlock_verify::main([suite.programs(pairs)])
}

/// The pairs of operations that no other program runs in different threads.
const PAIRS: &[(&str, &str)] = &[
    ("cancel", "cancel"),
    ("cancel", "lock-until"),
    ("cancel", "release"),
    ("cancel", "try"),
    ("lock", "lock-until"),
    ("lock-until", "lock-until"),
    ("lock-until", "release"),
    ("lock-until", "try"),
    ("release", "release"),
    ("release", "try"),
    ("try", "try"),
];

const WRITE: Mode = Mode::Write;

/// A table with three owners, the last two of which a thread can release, and data.
struct Scene {
    table: RecordLock,
    a: Owner,
    b: Mutex<Option<Owner>>,
    c: Mutex<Option<Owner>>,
    data: Data,
}

impl Scene {
    fn new() -> Self {
        let table = RecordLock::new();
        let [a, b, c] = [1, 2, 3].map(|id| table.owner(id).expect("is new"));
        let [b, c] = [b, c].map(|owner| Mutex::new(Some(owner)));
        let data = Data::new();
        Scene {
            table,
            a,
            b,
            c,
            data,
        }
    }

    /// A scene in which the first owner holds the first byte.
    fn held() -> Self {
        let scene = Self::new();
        scene.a.try_lock(0..1, WRITE).expect("is free");
        scene
    }

    fn with_b<T>(&self, f: impl FnOnce(&Owner) -> T) -> T {
        f(self.b.lock().as_ref().expect("is not released"))
    }

    fn with_c<T>(&self, f: impl FnOnce(&Owner) -> T) -> T {
        f(self.c.lock().as_ref().expect("is not released"))
    }

    /// Changes the data under the first byte, and unlocks it.
    fn use_and_unlock(&self, owner: &Owner) {
        self.data.add_one(&(0..1));
        owner.unlock(0..1).expect("is no split");
    }

    fn is_free(&self) {
        assert_eq!(self.table.holds(..), Ok(vec![]));
        assert_eq!(self.table.waiting(), Ok(vec![]));
    }
}

fn poll(request: &mut Request) -> Poll<Result<(), Error>> {
    Parker::with(|parker| {
        let mut context = Context::from_waker(parker.waker());
        Pin::new(request).poll(&mut context)
    })
}

fn exclusion() -> Program {
    Program::new(
        "exclusion",
        "two owners that lock a byte exclude each other",
    )
    .scene(Scene::new)
    .thread(["lock", "unlock"], |scene| {
        scene.a.lock(0..1, WRITE).wait().expect("is granted");
        scene.use_and_unlock(&scene.a);
    })
    .thread(["lock", "unlock"], |scene| {
        let request = scene.with_b(|b| b.lock(0..2, WRITE));
        request.wait().expect("is granted");
        scene.data.add_one(&(0..1));
        scene.with_b(|b| b.unlock(0..2)).expect("is no split");
    })
    .at_end(|scene| {
        assert_eq!(scene.data.sum(&(0..1)), 2);
        scene.is_free();
    })
    .into()
}

fn disjoint() -> Program {
    Program::new(
        "disjoint",
        "a request never waits for a hold that has no byte of it",
    )
    .scene(|| {
        let scene = Scene::new();
        scene.a.try_lock(1..2, WRITE).expect("is free");
        scene
    })
    .thread(["unlock"], |scene| {
        scene.data.add_one(&(1..2));
        scene.a.unlock(..).expect("is no split");
    })
    .thread(["lock", "unlock"], |scene| {
        scene.with_b(|b| {
            assert_eq!(poll(&mut b.lock(..1, WRITE)), Poll::Ready(Ok(())));
            scene.use_and_unlock(b);
        });
    })
    .at_end(Scene::is_free)
    .into()
}

/// The owner of a waiting request is woken, but a try of another owner may come first.
fn try_passes() -> Program {
    Program::new(
        "try-passes",
        "a request that was woken, but passed, goes on waiting",
    )
    .scene(Scene::held)
    .thread(["unlock", "try"], |scene| {
        scene.use_and_unlock(&scene.a);
        let passed = scene.a.try_lock(0..1, WRITE).is_ok();
        note(passed.to_string());
        if passed {
            scene.use_and_unlock(&scene.a);
        }
    })
    .thread(["lock", "unlock"], |scene| {
        let request = scene.with_b(|b| b.lock(0..1, WRITE));
        request.wait().expect("is granted");
        scene.with_b(|b| scene.use_and_unlock(b));
    })
    .at_end(Scene::is_free)
    .into()
}

fn deadline() -> Program {
    Program::new("deadline", "a request that times out locks nothing")
        .scene(Scene::held)
        .thread(["unlock"], |scene| scene.use_and_unlock(&scene.a))
        .thread(["lock-until", "unlock"], |scene| {
            let request = scene.with_b(|b| b.lock(0..1, WRITE));
            let result = request.wait_until(Instant::now());
            note(format!("{result:?}"));
            match result {
                Ok(()) => scene.with_b(|b| scene.use_and_unlock(b)),
                Err(error) => assert_eq!(error, Error::TimedOut),
            }
        })
        .at_end(Scene::is_free)
        .into()
}

fn cancel() -> Program {
    Program::new(
        "cancel",
        "a request that is given up while it may become ready locks nothing",
    )
    .scene(Scene::held)
    .thread(["unlock"], |scene| scene.use_and_unlock(&scene.a))
    .thread(["cancel"], |scene| {
        let mut request = scene.with_b(|b| b.lock(0..1, WRITE));
        let polled = poll(&mut request);
        note(format!("{polled:?}"));
        drop(request);
        if polled.is_ready() {
            scene.with_b(|b| scene.use_and_unlock(b));
        }
    })
    .at_end(Scene::is_free)
    .into()
}

/// A release calls the first of two waiters. It gives up, so the second is next.
fn cancel_called() -> Program {
    Program::new(
        "cancel-called",
        "if a request that was woken is given up, the next one is woken",
    )
    .scene(|| {
        let scene = Scene::held();
        let mut first = scene.with_b(|b| b.lock(0..1, WRITE));
        assert!(poll(&mut first).is_pending());
        (scene, Mutex::new(Some(first)))
    })
    .thread(["unlock", "cancel"], |(scene, first)| {
        scene.use_and_unlock(&scene.a);
        drop(first.lock().take());
    })
    .thread(["lock", "unlock"], |(scene, _)| {
        let request = scene.with_c(|c| c.lock(0..1, WRITE));
        request.wait().expect("is granted");
        scene.with_c(|c| scene.use_and_unlock(c));
    })
    .at_end(|(scene, _)| scene.is_free())
    .into()
}

/// Each owner holds a byte and requests the other's.
fn crosswise() -> Program {
    fn cross(owner: &Owner, request: Request) {
        let result = request.wait();
        note(format!("{}", result.is_ok()));
        if let Err(error) = result {
            assert!(matches!(error, Error::Deadlock(hold) if hold.owner != owner.id()));
        }
    }
    Program::new(
        "crosswise",
        "of two owners that wait crosswise, one gets an error",
    )
    .scene(|| {
        let scene = Scene::held();
        scene.with_b(|b| b.try_lock(1..2, WRITE)).expect("is free");
        let b = scene.b.lock().take().expect("is not released");
        (scene, b)
    })
    .thread(["lock", "unlock"], |(scene, _)| {
        cross(&scene.a, scene.a.lock(1..2, WRITE));
        scene.a.unlock(..).expect("is no split");
    })
    .thread(["lock", "unlock"], |(_, b)| {
        cross(b, b.lock(0..1, WRITE));
        b.unlock(..).expect("is no split");
    })
    .at_end(|(scene, _)| scene.is_free())
    .into()
}

/// The second owner waits for the first, with one thread. With another, it locks a byte that the
/// first one requests.
fn late_circle() -> Program {
    Program::new(
        "late-circle",
        "a circle of waits that a new hold closes ends with an error",
    )
    .scene(|| {
        let scene = Scene::held();
        scene.with_c(|c| c.try_lock(1..2, WRITE)).expect("is free");
        let mut waits = scene.with_b(|b| b.lock(0..1, WRITE));
        assert!(poll(&mut waits).is_pending());
        (scene, Mutex::new(Some(waits)))
    })
    .thread(["lock", "unlock"], |(scene, _)| {
        let result = scene.a.lock(1..2, WRITE).wait();
        note(format!("{}", result.is_ok()));
        scene.a.unlock(..).expect("is no split");
    })
    .thread(["unlock", "try", "cancel"], |(scene, waits)| {
        scene.with_c(|c| c.unlock(..)).expect("is no split");
        let result = scene.with_b(|b| b.try_lock(1..2, WRITE));
        note(format!("{}", result.is_ok()));
        if result.is_ok() {
            // It keeps its byte until its own request has ended, so the other one must fail.
            let request = waits.lock().take().expect("waits");
            request.wait().expect("is granted");
            scene.with_b(|b| b.unlock(..)).expect("is no split");
        } else {
            drop(waits.lock().take());
        }
    })
    .at_end(|(scene, _)| scene.is_free())
    .into()
}

fn release_frees() -> Program {
    Program::new(
        "release-frees",
        "the release of an owner wakes those that wait for its locks",
    )
    .scene(|| {
        let scene = Scene::new();
        scene.with_b(|b| b.try_lock(0..1, WRITE)).expect("is free");
        scene
    })
    .thread(["lock", "unlock"], |scene| {
        scene.a.lock(0..1, WRITE).wait().expect("is granted");
        scene.use_and_unlock(&scene.a);
    })
    .thread(["release"], |scene| {
        scene.data.add_one(&(0..1));
        drop(scene.b.lock().take());
    })
    .at_end(Scene::is_free)
    .into()
}

fn release_ends_wait() -> Program {
    Program::new(
        "release-ends-wait",
        "the release of an owner ends its waits with an error",
    )
    .scene(|| {
        let scene = Scene::held();
        let waits = scene.with_b(|b| b.lock(0..1, WRITE));
        (scene, Mutex::new(Some(waits)))
    })
    .thread(["release"], |(scene, _)| drop(scene.b.lock().take()))
    .thread(["lock"], |(_, waits)| {
        let request = waits.lock().take().expect("not taken");
        assert_eq!(request.wait(), Err(Error::Released));
    })
    .at_end(|(scene, _)| scene.a.unlock(..).expect("is no split"))
    .into()
}

fn pair(first: &'static str, second: &'static str) -> Program {
    let name = format!("pair-{first}-{second}");
    Program::new(
        name,
        "two operations that want a byte exclude each other, and leave nothing behind",
    )
    .scene(Scene::new)
    .thread([first, "unlock"], move |scene| act(scene, &scene.b, first))
    .thread([second, "unlock"], move |scene| {
        act(scene, &scene.c, second)
    })
    .at_end(Scene::is_free)
    .into()
}

fn act(scene: &Scene, place: &Mutex<Option<Owner>>, operation: &str) {
    let owner = place.lock().take().expect("is not released");
    let locked = match operation {
        "lock" => owner.lock(0..1, WRITE).wait().is_ok(),
        "lock-until" => owner.lock(0..1, WRITE).wait_until(Instant::now()).is_ok(),
        "cancel" => poll(&mut owner.lock(0..1, WRITE)).is_ready(),
        _ => owner.try_lock(0..1, WRITE).is_ok(),
    };
    note(locked.to_string());
    if locked {
        scene.data.add_one(&(0..1));
    }
    if operation == "release" {
        owner.release();
    } else {
        owner.unlock(..).expect("is no split");
        *place.lock() = Some(owner);
    }
}
