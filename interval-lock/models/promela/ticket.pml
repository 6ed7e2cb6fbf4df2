/*
 * The ticket protocol of the interval lock, as a Promela model for Spin: requests are granted first
 * come, first served, except for bounded overtaking, and none sleeps for ever.
 *
 * Each request locks the mutexes of the shards that it touches, draws a number, and counts in each
 * shard the earlier holders and waiters that conflict with it. A thread that releases or cancels
 * decrements the counts of the requests that counted it. If the count of a narrow request becomes
 * zero, it grants that request. If the count of a wide request becomes zero in the shard where its
 * owner has left its waker, it takes the waker. After the mutexes are unlocked, it wakes these
 * waiters. The owner of a wide request claims it if all counts are zero. A narrow request may pass
 * waiters that are ready.
 *
 * N threads request and release ranges, for reading or for writing. Each stops after some request
 * or goes on for ever. There are three ranges: two disjoint halves, and both together. Each half is
 * a shard, so a request for both is wide. Thread 1 may cancel while it waits. A critical section of
 * all mutexes that a request touches is one step, because each thread locks all of them before it
 * changes anything. The model has no numbers, which would grow for ever: `order` lists the threads
 * in the order of their requests. The two halves are symmetric, so thread 0 requests only the first
 * half or both. Upgrades and batches are left out.
 *
 * | here | mirrors |
 * |---|---|
 * | ask | interval-lock/src/narrow.rs: take, poll; interval-lock/src/wide.rs: take_all, hold_all, queue_all; interval-lock/src/requests.rs: admits, queue, queue_wide, conflicts |
 * | pass | interval-lock/src/requests/overtaking.rs: pass, can_pass, revoke |
 * | look, thread's inner loop | interval-lock/src/narrow.rs: wait, poll; interval-lock/src/wide.rs: wait_all, check; interval-lock/src/requests.rs: claim_grant, claim_wide, set_waker |
 * | leave, without its last loop | interval-lock/src/narrow.rs: release, leave; interval-lock/src/wide.rs: leave_wide; interval-lock/src/requests.rs: leave, settle, grant |
 * | leave, its last loop | interval-lock/src/narrow.rs: finish; interval-lock/src/requests/wakes.rs: wake |
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
 *   CLAIM_PART   the owner of a wide request claims it once its count in the first shard is zero
 *   WAKER_IN_READY the owner of a wide request leaves its waker in the first shard even if its count
 *                there is zero
 *   NO_LIMIT     a waiter can be passed for ever
 *   NO_REVOKE    a waiter that is passed keeps its grant
 */

#ifndef N
#define N 3
#endif

mtype = { absent, waiting, held };

/* Each thread's request. Bit 0 of `range` is the first half, bit 1 the second. */
mtype stage[N] = absent;
byte range[N];
bool writes[N];

/* The count of each node: of thread `t` in shard `s`. */
#define COUNT(t, s) count[2 * (t) + (s)]
byte count[2 * N];

/* Whether each node has been passed. One pass is allowed, as under the other checkers. */
#define PASSED(t, s) passed[2 * (t) + (s)]
bool passed[2 * N];

/* Whether the owner of a granted request has run since the grant. */
bool claimed[N];

/* The threads that have a request, in the order of the requests; `requests` is their number. */
byte order[N];
byte requests;

/* `waker`: one more than the shard in which the request has a waker, or 0. `woken`: whether the
 * thread's parker has a wake. */
byte waker[N];
bool woken[N];

/* Whether the thread has a request that is not granted yet; for the claim `granted`. */
bool waits[N];

#define TOUCHES(a, s) ((range[a] >> (s)) & 1)
#define MEET(a, b, s) (TOUCHES(a, s) && TOUCHES(b, s))
#define CONFLICT(a, b, s) (MEET(a, b, s) && (writes[a] || writes[b]))
#define WIDE(a) (range[a] == 3)
#define READY(a, s) (stage[a] == held && !claimed[a] || stage[a] == waiting && COUNT(a, s) == 0)
#define BLOCKED(a) (COUNT(a, 0) + COUNT(a, 1) > 0)

/* Leaves the waker in the first shard with a count above zero, unless the request has a waker. */
inline leave_waker() {
  if
  :: waker[_pid] != 0
#ifdef WAKER_IN_READY
  :: else -> waker[_pid] = (range[_pid] == 2 -> 2 : 1)
#else
  :: else -> waker[_pid] = (COUNT(_pid, 0) > 0 -> 1 : 2)
#endif
  fi
}

inline ask() {
  d_step {
    i = 0;
    do
    :: i < requests ->
      s = 0;
      do
      :: s < 2 ->
        if
#ifdef HOLDERS_ONLY
        :: CONFLICT(order[i], _pid, s) && stage[order[i]] == held -> COUNT(_pid, s)++
#else
        :: CONFLICT(order[i], _pid, s) -> COUNT(_pid, s)++
#endif
        :: else
        fi;
        s++
      :: else -> break
      od;
      i++
    :: else -> break
    od;
    if
    :: !BLOCKED(_pid) -> stage[_pid] = held; claimed[_pid] = true
    :: else ->
      stage[_pid] = waiting;
      pass();
#ifndef NO_RECHECK
      if
      :: stage[_pid] == waiting -> leave_waker()
      :: else
      fi
#endif
    fi;
    order[requests] = _pid;
    requests++;
    i = 0;
    s = 0
  }
}

/* Passes the waiters, if this request is narrow, no claimed hold blocks it, the first request that
 * blocks it is ready, and none of those that are ready has been passed before. */
inline pass() {
  if
  :: WIDE(_pid)
  :: else ->
    s = range[_pid] - 1;
    i = 0;
    first = true;
    may = true;
    do
    :: i < requests ->
      if
      :: CONFLICT(order[i], _pid, s) ->
        if
        :: READY(order[i], s) -> may = may && !PASSED(order[i], s)
        :: else -> may = may && !first && stage[order[i]] == waiting
        fi;
        first = false
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0;
    do
    :: may && i < requests ->
      if
      :: CONFLICT(order[i], _pid, s) ->
#ifndef NO_LIMIT
        if
        :: READY(order[i], s) -> PASSED(order[i], s) = true
        :: else
        fi;
#endif
#ifndef NO_REVOKE
        stage[order[i]] = waiting;
        COUNT(order[i], s)++
#endif
      :: else
      fi;
      i++
    :: else -> break
    od;
    if
    :: may -> stage[_pid] = held; claimed[_pid] = true; COUNT(_pid, s) = 0
    :: else
    fi;
    may = false;
    first = false
  fi
}

/* The owner of a waiting request runs: it claims the request or leaves its waker. */
inline look() {
  d_step {
    if
    :: stage[_pid] == held -> claimed[_pid] = true
#ifdef CLAIM_PART
    :: stage[_pid] == waiting && WIDE(_pid) && COUNT(_pid, 0) == 0 ->
#else
    :: stage[_pid] == waiting && WIDE(_pid) && !BLOCKED(_pid) ->
#endif
      stage[_pid] = held;
      claimed[_pid] = true
    :: else -> leave_waker()
    fi
  }
}

/* Removes this thread's request. Decrements the counts of the requests that it blocks. `wakes` has a
 * bit for each thread to wake. */
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
    j = 0;
    do
    :: i < requests ->
      if
      :: order[i] == _pid -> after = true
      :: else ->
        s = 0;
        do
        :: s < 2 ->
          if
#ifdef CANCEL_ALL
          :: stage[order[i]] == waiting && (stage[_pid] == held || after) && (CONFLICT(order[i], _pid, s) || cancels && MEET(order[i], _pid, s)) && COUNT(order[i], s) > 0 ->
#else
          :: stage[order[i]] == waiting && (stage[_pid] == held || after) && CONFLICT(order[i], _pid, s) ->
#endif
            COUNT(order[i], s)--;
            if
            :: COUNT(order[i], s) == 0 ->
              if
              :: !WIDE(order[i]) -> stage[order[i]] = held; claimed[order[i]] = false
              :: else
              fi;
#if !defined(NO_WAKE) && !defined(WAKE_FIRST)
              if
              :: waker[order[i]] == s + 1 -> wakes = wakes | (1 << order[i])
              :: else
              fi;
#endif
              if
              :: waker[order[i]] == s + 1 -> waker[order[i]] = 0
              :: else
              fi
            :: else
            fi
          :: else
          fi;
          s++
        :: else -> break
        od;
        order[j] = order[i];
        j++
      fi;
      i++
    :: else -> break
    od;
    requests--;
    order[requests] = 0;
    stage[_pid] = absent;
    claimed[_pid] = false;
    waits[_pid] = false;
    range[_pid] = 0;
    writes[_pid] = false;
    COUNT(_pid, 0) = 0;
    COUNT(_pid, 1) = 0;
    PASSED(_pid, 0) = false;
    PASSED(_pid, 1) = false;
    waker[_pid] = 0;
    after = false;
    i = 0;
    j = 0;
    s = 0
  };
  /* Wakes the threads outside the mutexes, one after the other, by number. The code wakes them in
   * the order of their ranges. Any thread may have any range, so this makes no difference. */
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

/* Asserts IL-I1 and IL-I2 of requests.rs: counts are exact, holds have a count of 0, and a narrow
 * request is held if its count is 0. So no two holds conflict. */
inline check() {
  d_step {
    i = 0;
    do
    :: i < requests ->
      s = 0;
      do
      :: s < 2 ->
        j = 0;
        before = 0;
        do
        :: j < requests ->
          if
          :: i == j || !CONFLICT(order[j], order[i], s)
          :: else ->
            assert(stage[order[i]] == waiting || stage[order[j]] == waiting);
            if
            :: stage[order[i]] == waiting && (stage[order[j]] == held || j < i) -> before++
            :: else
            fi
          fi;
          j++
        :: else -> break
        od;
        assert(COUNT(order[i], s) == before);
        s++
      :: else -> break
      od;
      assert(BLOCKED(order[i]) || stage[order[i]] == held || WIDE(order[i]));
      i++
    :: else -> break
    od;
    i = 0;
    j = 0;
    s = 0;
    before = 0
  }
}

active [N] proctype thread() {
  byte i, j, s, before, wakes;
  bool first, may, after;

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
    :: stage[_pid] == held && claimed[_pid]
    :: else ->
#ifdef NO_RECHECK
      d_step { leave_waker() };
#endif
      do
      :: d_step { woken[_pid] -> woken[_pid] = false };
        look();
        if
        :: stage[_pid] == held && claimed[_pid] -> break
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
