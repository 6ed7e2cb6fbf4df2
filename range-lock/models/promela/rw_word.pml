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
 * | arrive | range-lock/src/words.rs: arrive, take_at_once, arrive_among_waiters; sync/src/wait.rs: may_be_occupied, pass; sync/src/wait/bucket.rs: first_against |
 * | join, is_at_head, leave | range-lock/src/words/progress.rs: poll, drive, look; sync/src/wait.rs: join, is_at_head, leave |
 * | sleep | sync/src/parker.rs: park; sync/src/park.rs: wake_by_ref |
 * | release | range-lock/src/rw_word.rs: release; range-lock/src/words.rs: unlock; range-lock/src/words/wakes.rs: wake, wake_heads; sync/src/wait.rs: is_occupied, wake; sync/src/wait/bucket.rs: wakers |
 *
 * Claims: exclusion (assertions), and `granted`: thread 0, which stands for any thread, is granted
 * its requests. Hence there is no deadlock, in which some request would wait for ever.
 *
 * Injected bugs, each of which Spin must find (-D...):
 *   NO_RECHECK   a thread that has joined the queue sleeps without checking the word once more
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

/* The queue: its threads, in order, and how often each was overtaken. */
byte queue[N];
byte waiters;
byte passes[N];

/* Whether each thread's request is for writing. */
bool writes[N];
#define write writes[_pid]

/* Each thread's parker. */
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

/* Finds the first waiter before a place in the queue that excludes this thread: any waiter if it
 * writes, otherwise a writer. */
inline find_against(place) {
  against = NOBODY;
  i = 0;
  do
  :: i < place && (write || writes[queue[i]]) -> against = queue[i]; break
  :: i < place && !(write || writes[queue[i]]) -> i++
  :: i >= place -> break
  od;
  i = 0
}

/* Tries to acquire the word. If threads wait, it overtakes the first that excludes it, within the
 * bound. */
inline arrive(got) {
  if
  :: waiters == 0 ->
    atomic { take(got) }
  :: else ->
    atomic {
      find_against(waiters);
      if
#ifndef NO_AGING
      :: against != NOBODY && passes[against] >= MAX_PASSES -> got = false
      :: against == NOBODY || passes[against] < MAX_PASSES ->
#else
      :: true ->
#endif
        take(got);
        if
        :: got && against != NOBODY && passes[against] < MAX_PASSES -> passes[against]++
        :: else
        fi
      fi;
      against = NOBODY
    }
  fi
}

inline join() {
  d_step {
    queue[waiters] = _pid;
    waiters++
  }
}

/* Whether no earlier waiter excludes the thread. */
inline is_at_head(at_head) {
  d_step {
    do
    :: queue[i] != _pid -> i++
    :: else -> break
    od;
    j = i;
    find_against(j);
    at_head = (against == NOBODY);
    against = NOBODY;
    j = 0
  }
}

/* Leaves the queue, having acquired the word. After a reader the next may be a reader too, and so
 * at the head. */
inline leave() {
  d_step {
    do
    :: queue[i] != _pid -> i++
    :: else -> break
    od;
    waiters--;
    if
    :: i < waiters && !write -> next = queue[i + 1]
    :: else
    fi;
    do
    :: i < waiters -> queue[i] = queue[i + 1]; i++
    :: else -> break
    od;
    queue[waiters] = 0;
    i = 0;
    passes[_pid] = 0;
    /* A writer is at the head only if it is the first. */
    if
    :: next != NOBODY && writes[next] && queue[0] != next -> next = NOBODY
    :: else
    fi
  }
  wake()
}

/* Runs outside the bucket's lock: the waiter may have left meanwhile. */
inline wake() {
  d_step {
    if
    :: next != NOBODY -> woken[next] = true
    :: else
    fi;
    next = NOBODY
  }
}

/* Wakes the first waiter at the head, which wakes the next when it leaves. */
inline wake_first() {
  if
  :: waiters > 0 ->
#ifndef NO_WAKE
    d_step {
      if
      :: waiters > 0 -> next = queue[0]
      :: else
      fi
    };
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
  occupied = (waiters > 0);
  change();
  if
  :: last && occupied -> last = false; occupied = false; wake_first()
  :: else -> last = false; occupied = false
  fi
#else
  change();
  if
  :: last -> last = false; wake_first()
  :: else
  fi
#endif
}

active [N] proctype thread() {
  bool got, last;
#ifdef LOOK_FIRST
  bool occupied;
#endif
  byte next = NOBODY, against = NOBODY, i, j;

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
      join();
#ifdef NO_RECHECK
      d_step { woken[_pid] -> woken[_pid] = false };
#endif
      do
      :: true ->
        is_at_head(got);
        if
        :: got -> atomic { take(got) }
        :: else
        fi;
        if
        :: got -> break
        :: else -> d_step { woken[_pid] -> woken[_pid] = false }
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
