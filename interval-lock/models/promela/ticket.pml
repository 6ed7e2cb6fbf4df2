/*
 * The ticket protocol of the interval lock, as a Promela model for Spin: requests are granted first
 * come, first served, and none sleeps for ever.
 *
 * Each request draws a number under the lock's mutex and counts the earlier holders and waiters
 * that conflict with it. A thread that releases or cancels decrements the counts of the requests
 * that counted it. Those whose count becomes zero are granted, and woken after the mutex is
 * unlocked.
 *
 * N threads request and release ranges, for reading or for writing, and stop at some time or never.
 * There are three ranges: two disjoint ones, and both together. Thread 1 may cancel while it waits.
 * A critical section of the mutex is one step. `order` has all requests in the order of their
 * numbers, so that numbers need not grow for ever. The two halves are symmetric, so thread 0
 * requests the first or both. Upgrades and batches are left out.
 *
 * | here | mirrors |
 * |---|---|
 * | ask | interval-lock/src/lock.rs: take, poll; interval-lock/src/requests.rs: admits, hold, queue, conflicts, set_waker |
 * | is_mine | interval-lock/src/lock.rs: wait, poll; interval-lock/src/requests.rs: is_held |
 * | leave | interval-lock/src/lock.rs: release, leave, cancel; interval-lock/src/requests.rs: leave, settle, grant |
 * | wake_all | interval-lock/src/lock.rs: finish; interval-lock/src/requests.rs: wake |
 * | sleep | sync/src/parker.rs: park; sync/src/park.rs: wake_by_ref |
 *
 * Claims: exclusion and exact counts (assertions: IL-I1 and IL-I2), and `granted`: thread 0, which
 * stands for any thread that does not cancel, is granted its requests. Hence there is no deadlock,
 * in which some request would wait for ever.
 *
 * Injected bugs, each of which Spin must find (-D...):
 *   NO_RECHECK   the waker is set in a critical section of its own, after the one that found that
 *                the request must wait, without checking whether it was granted meanwhile
 *   NO_WAKE      a grant wakes no waiter
 *   WAKE_FIRST   a thread that leaves wakes the waiters before it decrements the counts
 *   HOLDERS_ONLY a request counts holders only, and overtakes waiters
 *   CANCEL_ALL   a cancellation decrements the counts of all later requests that overlap, as the
 *                kernel patch of 2019 did
 */

#ifndef N
#define N 3
#endif

mtype = { absent, waiting, held };

/* Each thread's request: bit 0 and bit 1 of the range are the disjoint halves. */
mtype stage[N] = absent;
byte range[N];
bool writes[N];
byte count[N];

/* Threads with a request, in the order of their numbers. */
byte order[N];
byte requests;

/* Whether the request has a waker; each thread's parker. */
bool waker[N];
bool woken[N];

/* For the claim. */
bool waits[N];

#define OVERLAP(a, b) ((range[a] & range[b]) != 0)
#define CONFLICT(a, b) (OVERLAP(a, b) && (writes[a] || writes[b]))

inline ask() {
  d_step {
    i = 0;
    do
    :: i < requests ->
      if
#ifdef HOLDERS_ONLY
      :: CONFLICT(order[i], _pid) && stage[order[i]] == held -> count[_pid]++
#else
      :: CONFLICT(order[i], _pid) -> count[_pid]++
#endif
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0;
    order[requests] = _pid;
    requests++;
    if
    :: count[_pid] == 0 -> stage[_pid] = held
    :: else ->
      stage[_pid] = waiting;
#ifndef NO_RECHECK
      waker[_pid] = true
#endif
    fi
  }
}

/* Decrements the counts of the later requests that conflict with this one, which counted it.
 * `wakes` has a bit for each thread to wake. */
inline leave(cancels) {
#ifdef WAKE_FIRST
  d_step {
    i = 0;
    do
    :: i < requests -> woken[order[i]] = true; i++
    :: else -> break
    od;
    i = 0
  };
#endif
  d_step {
    i = 0;
    do
    :: i < requests && order[i] != _pid -> i++
    :: else -> break
    od;
    i++;
    do
    :: i < requests ->
      if
#ifdef CANCEL_ALL
      :: stage[order[i]] == waiting && (CONFLICT(order[i], _pid) || cancels && OVERLAP(order[i], _pid)) && count[order[i]] > 0 ->
#else
      :: stage[order[i]] == waiting && CONFLICT(order[i], _pid) ->
#endif
        count[order[i]]--;
        if
        :: count[order[i]] == 0 ->
          stage[order[i]] = held;
#if !defined(NO_WAKE) && !defined(WAKE_FIRST)
          if
          :: waker[order[i]] -> wakes = wakes | (1 << order[i])
          :: else
          fi;
#endif
          waker[order[i]] = false
        :: else
        fi
      :: else
      fi;
      order[i - 1] = order[i];
      i++
    :: else -> break
    od;
    requests--;
    order[requests] = 0;
    stage[_pid] = absent;
    waits[_pid] = false;
    range[_pid] = 0;
    writes[_pid] = false;
    count[_pid] = 0;
    waker[_pid] = false;
    i = 0
  };
  /* Wakes outside the mutex, one after the other, in the order of the ranges: in any order. */
  do
  :: d_step { wakes != 0 ->
      do
      :: (wakes & (1 << i)) == 0 -> i++
      :: else -> break
      od;
      wakes = wakes & ~(1 << i);
      woken[i] = true;
      i = 0
    }
  :: wakes == 0 -> break
  od
}

/* IL-I1 and IL-I2 of requests.rs: counts are exact, and a hold counts no request, so no two holds
 * conflict. */
inline check() {
  d_step {
    i = 0;
    do
    :: i < requests ->
      j = 0;
      before = 0;
      do
      :: j < i ->
        if
        :: CONFLICT(order[j], order[i]) -> before++
        :: else
        fi;
        j++
      :: else -> break
      od;
      assert(count[order[i]] == before);
      assert((stage[order[i]] == held) == (before == 0));
      i++
    :: else -> break
    od;
    i = 0;
    j = 0;
    before = 0
  }
}

active [N] proctype thread() {
  byte i, j, before, wakes;

  do
  :: true ->
    atomic {
      if
      :: range[_pid] = 1
      :: _pid != 0 -> range[_pid] = 2
      :: range[_pid] = 3
      fi;
      if
      :: writes[_pid] = true
      :: writes[_pid] = false
      fi;
      waits[_pid] = true;
      ask()
    };
    if
    :: stage[_pid] == held
    :: else ->
#ifdef NO_RECHECK
      waker[_pid] = true;
#endif
      do
      :: d_step { woken[_pid] -> woken[_pid] = false };
        if
        :: stage[_pid] == held -> break
        :: else
        fi
      :: _pid == 1 -> leave(true); goto gone
      od
    fi;
    atomic {
      waits[_pid] = false;
      check()
    };
    leave(false);
gone:
    skip
  :: break
  od
}

ltl granted { [] (waits[0] -> <> !waits[0]) }
