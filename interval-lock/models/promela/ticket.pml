/*
 * The ticket protocol of the interval lock, as a Promela model for Spin: first come, first served, and nobody is left asleep.
 *
 * Each request draws a number under the lock's mutex and counts those before it that conflict with it, holders and waiters. Who goes, or gives
 * up, lowers the counts of those that counted it, and those that come to zero are granted, and woken once the mutex is open.
 *
 * N threads ask for ranges and give them back, each time for one of three ranges (two that are disjoint, and both together), for reading or for writing
 * as they like, and stop when they like, or never; thread 1 may give up while it waits. A section of the mutex is one step. All requests are in the order of
 * their numbers in `order`, so that numbers need not grow for ever. The halves are alike, so thread 0 asks for the first or for both. Upgrades and batches
 * are left out.
 *
 * | here | mirrors |
 * |---|---|
 * | ask | interval-lock/src/lock.rs: take, poll; interval-lock/src/requests.rs: admits, hold, queue, conflicts, set_waker |
 * | is_mine | interval-lock/src/lock.rs: wait, poll; interval-lock/src/requests.rs: is_held |
 * | leave | interval-lock/src/lock.rs: give_back, leave, cancel; interval-lock/src/requests.rs: leave, settle, grant |
 * | wake_all | interval-lock/src/lock.rs: finish; interval-lock/src/requests.rs: wake |
 * | sleep | sync/src/parker.rs: park, wake_by_ref |
 *
 * Claims: exclusion and exact counts (assertions: I1 and I2), and `granted`: thread 0, which is as good as any that does not give up, gets what it
 * waits for. (So there is no deadlock: somebody would wait in it.)
 *
 * Defects, each of which Spin has to find (-D…):
 *   NO_RECHECK   the waker is set in a section of its own, after the one that found the request has to wait, without a look whether it was granted meanwhile
 *   NO_WAKE      a grant wakes nobody
 *   WAKE_FIRST   who goes wakes those that wait, then lowers the counts
 *   HOLDERS_ONLY a request counts holders, and goes past waiters
 *   CANCEL_ALL   who gives up lowers the count of all later ones that overlap, as the kernel patch of 2019 did
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

/* Those that counted the one that goes: later ones that conflict with it. `wakes`: a bit each. */
inline leave(gives_up) {
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
      :: stage[order[i]] == waiting && (CONFLICT(order[i], _pid) || gives_up && OVERLAP(order[i], _pid)) && count[order[i]] > 0 ->
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
  /* Outside of the mutex, one after the other, in the order of the ranges: any order. */
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

/* I1 and I2 of requests.rs: counts are exact, and who is held counts nobody, so no two holds conflict. */
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
