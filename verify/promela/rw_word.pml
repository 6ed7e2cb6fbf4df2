/*
 * The RW word with its queue, as a Promela model for Spin: nobody starves, nobody is left asleep.
 *
 * loom and shuttle run the code itself, and end; Spin runs this twin of it for ever, and so can say what happens *eventually*:
 * under weak fairness (a thread that can go on does so at some time) every request is granted, whatever the others do.
 *
 * N threads take and give back the word, each time for reading or for writing as they like, and stop when they like, or never. Steps are those of the code; a section under the
 * bucket's lock with one access to what is not under it is one step, since nobody can tell. All is sequentially consistent: orderings are loom's
 * affair. Spinning before queueing is left out, as under the other checkers.
 *
 * | here | mirrors |
 * |---|---|
 * | take | range-lock/src/rw_word.rs: take, admits |
 * | arrive | range-lock/src/words.rs: arrive, take_at_once, arrive_among_waiters; sync/src/wait.rs: may_be_occupied, pass |
 * | join, look, leave | range-lock/src/words/progress.rs: poll, drive, look; sync/src/wait.rs: join, is_head, leave |
 * | sleep | sync/src/parker.rs: park, wake_by_ref |
 * | give_back | range-lock/src/rw_word.rs: give_back; range-lock/src/words.rs: unlock, wake, wake_heads; sync/src/wait.rs: is_occupied, wake_head |
 *
 * Claims: exclusion (assertions), and `granted`: thread 0, which is as good as any, gets what it waits for. (So there is no deadlock: somebody
 * would wait in it.)
 *
 * Defects, each of which Spin has to find (-D…):
 *   NO_RECHECK   who has joined the queue sleeps without having looked at the word once more
 *   NO_AGING     arrivals pass the head as often as they like
 *   NO_WAKE      a release wakes nobody
 *   LOOK_FIRST   a release looks at the queue before it changes the word
 */

#ifndef N
#define N 3
#endif
#define MAX_PASSES 1
#define NOBODY 255

/* The word. */
bool writer;
byte readers;

/* The queue: who stands in it, in order, and how often the head was passed. */
byte queue[N];
byte waiters;
byte passes;

/* Each thread's parker. */
bool woken[N];

/* For the claims: who waits; how many are inside. */
bool waits[N];
byte reading, writing;

inline take(got) {
  if
  :: write && !writer && readers == 0 -> writer = true; got = true
  :: !write && !writer -> readers++; got = true
  :: else -> got = false
  fi
}

/* Looks whether anybody waits; if so, past the head or not at all. */
inline arrive(got) {
  if
  :: waiters == 0 ->
    atomic { take(got) }
  :: else ->
    atomic {
      if
#ifndef NO_AGING
      :: waiters > 0 && passes >= MAX_PASSES -> got = false
      :: waiters == 0 || passes < MAX_PASSES ->
#else
      :: true ->
#endif
        take(got);
        if
        :: got && waiters > 0 && passes < MAX_PASSES -> passes++
        :: else
        fi
      fi
    }
  fi
}

inline join() {
  d_step {
    queue[waiters] = _pid;
    if
    :: waiters == 0 -> passes = 0
    :: else
    fi;
    waiters++
  }
}

/* The head leaves, having taken the word. Behind a reader the next may be a reader too. */
inline leave() {
  d_step {
    i = 1;
    do
    :: i < waiters -> queue[i - 1] = queue[i]; i++
    :: else -> break
    od;
    waiters--;
    queue[waiters] = 0;
    passes = 0;
    i = 0;
    next = NOBODY;
    if
    :: waiters > 0 && !write -> next = queue[0]
    :: else
    fi
  }
  wake()
}

/* Outside of the bucket's lock: it may have left meanwhile. */
inline wake() {
  d_step {
    if
    :: next != NOBODY -> woken[next] = true
    :: else
    fi;
    next = NOBODY
  }
}

inline wake_head() {
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
    :: write -> writer = false; last = true
    :: else -> readers--; last = (readers == 0)
    fi
  }
}

inline give_back() {
#ifdef LOOK_FIRST
  occupied = (waiters > 0);
  change();
  if
  :: last && occupied -> wake_head()
  :: else
  fi;
  occupied = false;
#else
  change();
  if
  :: last -> wake_head()
  :: else
  fi;
#endif
  last = false
}

active [N] proctype thread() {
  bool write, got, last;
#ifdef LOOK_FIRST
  bool occupied;
#endif
  byte next = NOBODY, i;

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
      :: queue[0] == _pid ->
        atomic { take(got) };
        if
        :: got -> break
        :: else -> d_step { woken[_pid] -> woken[_pid] = false }
        fi
      :: else -> d_step { woken[_pid] -> woken[_pid] = false }
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
    d_step {
      if
      :: write -> writing--
      :: else -> reading--
      fi
    };
    give_back()
  :: break
  od
}

ltl granted { [] (waits[0] -> <> !waits[0]) }
