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
 * | arrive | range-lock/src/words.rs: arrive, take_at_once, arrive_among_waiters; sync/src/wait.rs: may_be_occupied, pass; sync/src/wait/bucket.rs: first_against |
 * | join, is_in_front, leave | range-lock/src/words/progress.rs: poll, drive, look; sync/src/wait.rs: join, is_in_front, leave |
 * | sleep | sync/src/parker.rs: park, wake_by_ref |
 * | give_back | range-lock/src/rw_word.rs: give_back; range-lock/src/words.rs: unlock, wake, wake_fronts; sync/src/wait.rs: is_occupied, wake; sync/src/wait/bucket.rs: calls |
 *
 * Claims: exclusion (assertions), and `granted`: thread 0, which is as good as any, gets what it waits for. (So there is no deadlock: somebody
 * would wait in it.)
 *
 * Defects, each of which Spin has to find (-D…):
 *   NO_RECHECK   who has joined the queue sleeps without having looked at the word once more
 *   NO_AGING     arrivals pass those who wait as often as they like
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

/* The queue: who stands in it, in order, and how often each was passed. */
byte queue[N];
byte waiters;
byte passes[N];

/* What each thread's request is for. */
bool writes[N];
#define write writes[_pid]

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

/* The first waiter, before a place in the queue, that would exclude this thread: any if it writes, else a writer. */
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

/* Looks whether anybody waits; if so, past the first that would exclude it or not at all. */
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

/* Whether nobody before it would exclude it. */
inline is_in_front(front) {
  d_step {
    do
    :: queue[i] != _pid -> i++
    :: else -> break
    od;
    j = i;
    find_against(j);
    front = (against == NOBODY);
    against = NOBODY;
    j = 0
  }
}

/* It leaves, having taken the word. Behind a reader the next may be a reader too, and in front. */
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
    /* A writer is in front at the head only. */
    if
    :: next != NOBODY && writes[next] && queue[0] != next -> next = NOBODY
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

/* Of those in front the first, who wakes the next when it leaves. */
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

inline give_back() {
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
        is_in_front(got);
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
    give_back()
  :: break
  od
}

ltl granted { [] (waits[0] -> <> !waits[0]) }
