/*
 * The ticket protocol of the interval lock, as a Promela model for Spin: requests are granted first
 * come, first served, and none sleeps for ever.
 *
 * Each request draws a number under the lock's mutex and counts the earlier holders and waiters
 * that conflict with it. A thread that releases or cancels decrements the counts of the requests
 * that counted it. It grants each request whose count becomes zero, and wakes its thread after the
 * mutex is unlocked.
 *
 * N threads request and release ranges, for reading or for writing. Each stops after some request
 * or goes on for ever. There are three ranges: two disjoint halves, and both together. Thread 1 may
 * cancel while it waits. A critical section of the mutex is one step. The model has no numbers,
 * which would grow for ever: `order` lists the threads in the order of their requests. The two
 * halves are symmetric, so thread 0 requests only the first half or both. Upgrades and batches are
 * left out.
 *
 * | here | mirrors |
 * |---|---|
 * | ask | interval-lock/src/lock.rs: take, poll; interval-lock/src/requests.rs: admits, hold, queue, conflicts, set_waker |
 * | thread, its inner loop | interval-lock/src/lock.rs: wait, poll; interval-lock/src/requests.rs: is_held |
 * | leave, without its last loop | interval-lock/src/lock.rs: release, leave, cancel; interval-lock/src/requests.rs: leave, settle, grant |
 * | leave, its last loop | interval-lock/src/lock.rs: finish; interval-lock/src/requests.rs: wake |
 * | woken | sync/src/parker.rs: park; sync/src/park.rs: wake_by_ref |
 *
 * Claims: assertions check exclusion and exact counts (IL-I1 and IL-I2). `granted` says that every
 * request of thread 0, which stands for any thread that does not cancel, is granted eventually. So
 * there is no deadlock, because in a deadlock some request would wait for ever.
 *
 * Injected bugs, each of which Spin must find (-D...):
 *   NO_RECHECK   the request is queued and its waker is set in two critical sections, and the second
 *                does not check whether the request was granted in between
 *   NO_WAKE      a grant wakes no waiter
 *   WAKE_FIRST   a thread that leaves wakes the waiters before it decrements the counts
 *   HOLDERS_ONLY a request counts holders only, and overtakes waiters
 *   CANCEL_ALL   a cancellation decrements the counts of all later requests that overlap, as the
 *                Linux range lock patches of 2019 did
 */

#ifndef N
#define N 3
#endif

mtype = { absent, waiting, held };

/* Each thread's request. Bit 0 of `range` is the first half, bit 1 the second. */
mtype stage[N] = absent;
byte range[N];
bool writes[N];
byte count[N];

/* The threads that have a request, in the order of the requests; `requests` is their number. */
byte order[N];
byte requests;

/* `waker`: whether the request has a waker. `woken`: whether the thread's parker has a wake. */
bool waker[N];
bool woken[N];

/* Whether the thread has a request that is not granted yet; for the claim `granted`. */
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

/* Removes this thread's request. Decrements the counts of the later requests that conflict with it,
 * because they counted it. `wakes` has a bit for each thread to wake. */
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
  /* Wakes the threads outside the mutex, one after the other, by number. The code wakes them in the
   * order of their ranges. Any thread may have any range, so this makes no difference. */
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

/* Asserts IL-I1 and IL-I2 of requests.rs: counts are exact, and a request is held if and only if its
 * count is 0. So no two holds conflict. */
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
