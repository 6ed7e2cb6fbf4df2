/*
 * The reader-writer word and its queue, as a Promela model for Spin: every request is granted.
 *
 * Loom and shuttle run the code itself, in programs that end. Spin runs this model of it for ever,
 * and so can say what happens *eventually*. Under weak fairness (a thread that can go on does so at
 * some time) every request is granted, whatever the other threads do.
 *
 * N threads acquire and release the word, each time for reading or for writing, and stop at some
 * time or never. Steps are those of the code. A section under the bucket's lock is one step if it
 * accesses at most one thing that the lock does not protect, since no thread can observe the
 * difference. All steps are sequentially consistent: loom checks the orderings. As under the other
 * checkers, threads do not spin before they queue.
 *
 * | here | mirrors |
 * |---|---|
 * | take | range-lock/src/rw_word.rs: take, admits |
 * | arrive | range-lock/src/words.rs: arrive, take_at_once, arrive_among_waiters; sync/src/wait.rs: may_be_occupied, pass; sync/src/wait/bucket.rs: conflicts_with, is_shut, count_pass |
 * | join, rearm, leave | range-lock/src/words/progress.rs: drive, look, look_awake; sync/src/wait.rs: join, rearm, leave; sync/src/wait/bucket.rs: push, remove |
 * | settle | sync/src/wait/bucket.rs: settle, upgradable_head, exclusive_head |
 * | sleep | range-lock/src/words/progress.rs: park; sync/src/parker.rs: park; sync/src/park.rs: wake_by_ref |
 * | release | range-lock/src/rw_word.rs: release; range-lock/src/words.rs: unlock; range-lock/src/words/wakes.rs: wake, wake_heads; sync/src/wait.rs: is_any_asleep, wake; sync/src/wait/bucket.rs: wake_single, wake_shared |
 *
 * Claims: exclusion (assertions), and `granted`: thread 0, which stands for any thread, is granted
 * its requests. Hence there is no deadlock, in which some request would wait for ever.
 *
 * Injected bugs, each of which Spin must find (-D...):
 *   NO_RECHECK   a thread that has joined the queue sleeps without checking the word once more
 *   NO_REARM_CHECK   so does a thread that was woken in vain and sleeps again
 *   NO_SETTLE   a thread that leaves does not count that a sleeper is now at the head
 *   NO_AGING     arrivals overtake waiters without bound
 *   NO_WAKE      a release wakes no waiter
 *   LOOK_FIRST   a release checks the queue before it changes the word
 */

#ifndef N
#define N 3
#endif
#define MAX_PASSES 1
#define NOBODY 255

/* The word. */
bool writer;
byte readers;

/* The queue: its threads, in order. */
byte queue[N];
byte waiters;

/* Which of them sleep, and whether one that is at the head does. */
bool asleep[N];
bool armed;

/* How often those at the head were overtaken. */
byte passes;

/* Whether each thread's request is for writing. */
bool writes[N];
#define write writes[_pid]

/* Each thread's parker: whether it keeps a wake. */
bool woken[N];

/* For the claims: which threads wait, and how many readers and writers hold the word. */
bool waits[N];
byte reading, writing;

inline take(got) {
  if
  :: write && !writer && readers == 0 -> writer = true; got = true
  :: !write && !writer -> readers++; got = true
  :: else -> got = false
  fi
}

/* Finds the first waiter that excludes this thread: any waiter if it writes, otherwise a writer. */
inline find_against() {
  against = NOBODY;
  i = 0;
  do
  :: i < waiters && (write || writes[queue[i]]) -> against = queue[i]; break
  :: i < waiters && !(write || writes[queue[i]]) -> i++
  :: i >= waiters -> break
  od;
  i = 0
}

/* Tries to acquire the word. If threads wait, it overtakes those at the head, within the bound. */
inline arrive(got) {
  if
  :: waiters == 0 ->
    atomic { take(got) }
  :: else ->
    atomic {
      find_against();
      if
#ifndef NO_AGING
      :: against != NOBODY && passes >= MAX_PASSES -> got = false
      :: against == NOBODY || passes < MAX_PASSES ->
#else
      :: true ->
#endif
        take(got);
        if
        :: got && against != NOBODY && passes < MAX_PASSES -> passes++
        :: else
        fi
      fi;
      against = NOBODY
    }
  fi
}

/* Determines whether a waiter at the head is asleep. A writer is at the head only if it is the first,
 * a reader if no writer came before it. */
inline settle() {
  armed = false;
  i = 0;
  do
  :: i < waiters && writes[queue[i]] ->
    armed = armed || (i == 0 && asleep[queue[i]]);
    break
  :: i < waiters && !writes[queue[i]] ->
    armed = armed || asleep[queue[i]];
    i++
  :: i >= waiters -> break
  od;
  i = 0
}

inline join(at_head) {
  d_step {
    find_against();
    at_head = (against == NOBODY);
    against = NOBODY;
    queue[waiters] = _pid;
    waiters++;
    asleep[_pid] = true;
    settle()
  }
}

inline rearm() {
  d_step {
    asleep[_pid] = true;
    settle()
  }
}

/* Leaves the queue, having acquired the word. A thread that is now at the head sleeps until the
 * release. If no thread remains at the head that was there before, passes are counted anew. */
inline leave() {
  d_step {
    do
    :: queue[i] != _pid -> i++
    :: else -> break
    od;
    if
    :: write || (i == 0 && (waiters == 1 || writes[queue[1]])) -> passes = 0
    :: else
    fi;
    waiters--;
    do
    :: i < waiters -> queue[i] = queue[i + 1]; i++
    :: else -> break
    od;
    queue[waiters] = 0;
    i = 0;
    asleep[_pid] = false;
#ifndef NO_SETTLE
    settle()
#endif
  }
}

/* Takes the wakers of all sleepers at the head, under the bucket's lock; then calls them, one after
 * the other, without it. */
inline wake() {
  d_step {
    i = 0;
    do
    :: i < waiters && (!writes[queue[i]] || i == 0) ->
      if
      :: asleep[queue[i]] -> asleep[queue[i]] = false; taken = taken | (1 << queue[i])
      :: else
      fi;
      if
      :: writes[queue[i]] -> break
      :: else -> i++
      fi
    :: else -> break
    od;
    settle()
  };
  do
  :: taken != 0 ->
    d_step {
      do
      :: (taken & (1 << i)) == 0 -> i++
      :: else -> break
      od;
      woken[i] = true;
      taken = taken & ~(1 << i);
      i = 0
    }
  :: else -> break
  od
}

inline wake_heads() {
  if
  :: armed ->
#ifndef NO_WAKE
    wake()
#else
    skip
#endif
  :: else
  fi
}

inline change() {
  d_step {
    if
    :: write -> writing--; writer = false; last = true
    :: else -> reading--; readers--; last = (readers == 0)
    fi;
    write = false
  }
}

inline release() {
#ifdef LOOK_FIRST
  occupied = armed;
  change();
  if
  :: last && occupied -> last = false; occupied = false; wake()
  :: else -> last = false; occupied = false
  fi
#else
  change();
  if
  :: last -> last = false; wake_heads()
  :: else
  fi
#endif
}

active [N] proctype thread() {
  bool got, last;
#ifdef LOOK_FIRST
  bool occupied;
#endif
  byte against = NOBODY, i, taken;

  do
  :: true ->
    if
    :: write = true
    :: write = false
    fi;
    waits[_pid] = true;
    arrive(got);
    if
    :: got
    :: else ->
      join(got);
#ifdef NO_RECHECK
      got = false;
#endif
      if
      :: got -> atomic { take(got) }
      :: else
      fi;
      do
      :: got -> break
      :: !got && asleep[_pid] -> d_step { woken[_pid] -> woken[_pid] = false }
      :: !got && !asleep[_pid] ->
        atomic { take(got) };
        if
        :: got
        :: else ->
          rearm();
#ifndef NO_REARM_CHECK
          atomic { take(got) }
#endif
        fi
      od;
      leave()
    fi;

    d_step {
      got = false;
      waits[_pid] = false;
      if
      :: write -> writing++
      :: else -> reading++
      fi;
      assert(writing <= 1 && (writing == 0 || reading == 0))
    };
    release()
  :: break
  od
}

ltl granted { [] (waits[0] -> <> !waits[0]) }
