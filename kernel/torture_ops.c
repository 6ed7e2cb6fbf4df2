// SPDX-License-Identifier: MIT OR Apache-2.0
/* The families of locks, as the torture calls them; and tests of bad input. */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "spanlock_torture.h"

/* Calls through a pointer to a function must name the type that the function has. */
#define ACQUIRE(family, name) \
	static int family##_##name##_any(union torture_lock *lock, struct range_hold *hold, \
					 u64 start, u64 end) \
	{ \
		return family##_##name(&lock->family, hold, start, end); \
	}

#define FAMILY(family) \
	ACQUIRE(family, read_lock) \
	ACQUIRE(family, read_lock_killable) \
	ACQUIRE(family, read_trylock) \
	ACQUIRE(family, upgradable_lock) \
	ACQUIRE(family, upgradable_lock_killable) \
	ACQUIRE(family, upgradable_trylock) \
	ACQUIRE(family, write_lock) \
	ACQUIRE(family, write_lock_killable) \
	ACQUIRE(family, write_trylock) \
	static void family##_destroy_any(union torture_lock *lock) \
	{ \
		family##_destroy(&lock->family); \
	} \
	static void family##_unlock_any(union torture_lock *lock, struct range_hold *hold) \
	{ \
		family##_unlock(&lock->family, hold); \
	} \
	static void family##_downgrade_any(union torture_lock *lock, struct range_hold *hold) \
	{ \
		family##_downgrade(&lock->family, hold); \
	} \
	static int family##_upgrade_any(union torture_lock *lock, struct range_hold *hold) \
	{ \
		return family##_upgrade(&lock->family, hold); \
	}

#define SEGMENTS(family) \
	FAMILY(family) \
	static int family##_init_any(union torture_lock *lock, u64 capacity) \
	{ \
		return family##_init(&lock->family, capacity, 4096, TORTURE_WIDE); \
	}

SEGMENTS(srl)
SEGMENTS(srl_packed)
SEGMENTS(srl_tree)
FAMILY(interval)

static int interval_init_any(union torture_lock *lock, u64 capacity)
{
	return interval_init(&lock->interval, 0, 0);
}

static int interval_upgrade_wait_any(union torture_lock *lock, struct range_hold *hold)
{
	return interval_upgrade_wait(&lock->interval, hold);
}

static unsigned long srl_tree_shrink_any(union torture_lock *lock, u64 start, u64 end)
{
	return srl_tree_shrink(&lock->srl_tree, start, end);
}

/* No lock at all: the torture must notice. */

static int none_init(union torture_lock *lock, u64 capacity)
{
	return 0;
}

static int none_acquire(union torture_lock *lock, struct range_hold *hold, u64 start, u64 end)
{
	return 0;
}

static void none_destroy(union torture_lock *lock)
{
}

static void none_release(union torture_lock *lock, struct range_hold *hold)
{
}

static int none_upgrade(union torture_lock *lock, struct range_hold *hold)
{
	return 0;
}

#define OPS(family) \
	.name = #family, \
	.init = family##_init_any, \
	.destroy = family##_destroy_any, \
	.acquire = { \
		[T_READ] = { family##_read_lock_any, family##_read_lock_killable_any, \
			   family##_read_trylock_any }, \
		[T_UPGRADABLE] = { family##_upgradable_lock_any, \
				 family##_upgradable_lock_killable_any, \
				 family##_upgradable_trylock_any }, \
		[T_WRITE] = { family##_write_lock_any, family##_write_lock_killable_any, \
			    family##_write_trylock_any }, \
	}, \
	.unlock = family##_unlock_any, \
	.downgrade = family##_downgrade_any, \
	.upgrade = family##_upgrade_any

static const struct torture_ops all[] = {
	{ OPS(srl), .unit = 4096, .rounds = true },
	{ OPS(srl_packed), .unit = 4096, .rounds = true },
	{ OPS(srl_tree), .unit = 4096, .rounds = true, .shrink = srl_tree_shrink_any },
	/* Two units a stripe, so the units lie in all shards. */
	{ OPS(interval), .unit = 1 << 15, .upgrade_wait = interval_upgrade_wait_any },
	{
		.name = "none", .unit = 1, .init = none_init, .destroy = none_destroy,
		.acquire = { { none_acquire, none_acquire, none_acquire },
			     { none_acquire, none_acquire, none_acquire },
			     { none_acquire, none_acquire, none_acquire } },
		.unlock = none_release, .downgrade = none_release, .upgrade = none_upgrade,
	},
};

const struct torture_ops *torture_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (!strcmp(all[i].name, name))
			return &all[i];
	return NULL;
}

/* Bad input. */

struct wait_test {
	const struct torture_ops *ops;
	union torture_lock *lock;
	int result;
	bool ended;
};

static int wait_and_die(void *data)
{
	struct wait_test *test = data;
	struct range_hold hold;

	allow_signal(SIGKILL);
	test->result = test->ops->acquire[T_WRITE][T_KILLABLE](test->lock, &hold, 0, 10 * test->ops->unit);
	if (!test->result)
		test->ops->unlock(test->lock, &hold);
	flush_signals(current);
	WRITE_ONCE(test->ended, true);
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return 0;
}

#define EXPECT(call, expected) do { \
	int got_ = (call); \
	if (got_ != (expected)) { \
		pr_err("spanlock: %s: %s is %d, not %d\n", ops->name, #call, got_, expected); \
		atomic_long_inc(violations); \
	} \
} while (0)

void torture_self_test(const struct torture_ops *ops, union torture_lock *lock,
		       atomic_long_t *violations)
{
	u64 unit = ops->unit, capacity = 64 * unit;
	struct range_hold a, b;
	struct wait_test test = { ops, lock };
	struct task_struct *task;
	unsigned int i;

	if (!strcmp(ops->name, "none"))
		return;
	if (ops->rounds) {
		EXPECT(srl_init(&lock->srl, capacity, 1000, 0), -EINVAL);
		EXPECT(srl_tree_init(&lock->srl_tree, capacity, 0, 0), -EINVAL);
		/* Words that no memory can hold. */
		EXPECT(srl_init(&lock->srl, U64_MAX, 1, 0), -ENOMEM);
		EXPECT(srl_packed_init(&lock->srl_packed, U64_MAX, 1, 0), -ENOMEM);
	} else {
		EXPECT(interval_init(&lock->interval, 17, 0), -EINVAL);
	}
	spanlock_fail_every = 1;
	EXPECT(ops->init(lock, capacity), -ENOMEM);
	spanlock_fail_every = 0;
	if (ops->init(lock, capacity)) {
		atomic_long_inc(violations);
		return;
	}
	/* No memory for a first request, the hold of which is empty then. Later, there is. */
	spanlock_fail_every = 1;
	for (i = 0; i < T_ACCESSES * T_WAITS; i++) {
		a.start = 0;
		a.end = capacity;
		EXPECT(ops->acquire[i / T_WAITS][i % T_WAITS](lock, &a, 0, capacity), -ENOMEM);
		EXPECT(a.start == a.end, true);
		ops->unlock(lock, &a);
	}
	if (ops->shrink)
		EXPECT(ops->acquire[T_READ][T_SLEEP](lock, &a, 0, 1), -ENOMEM);
	spanlock_fail_every = 0;
	/* Ranges that no lock takes. */
	for (i = 0; i < T_ACCESSES * T_WAITS; i++) {
		torture_acquire *acquire = ops->acquire[i / T_WAITS][i % T_WAITS];

		EXPECT(acquire(lock, &a, 2 * unit, unit), -EINVAL);
		if (ops->rounds) {
			EXPECT(acquire(lock, &a, 0, capacity + 1), -ERANGE);
			EXPECT(acquire(lock, &a, U64_MAX - 1, U64_MAX), -ERANGE);
		}
		/* An empty range locks nothing, even where a writer is. */
		EXPECT(ops->acquire[T_WRITE][T_SLEEP](lock, &a, 0, capacity), 0);
		EXPECT(acquire(lock, &b, unit, unit), 0);
		ops->downgrade(lock, &b);
		EXPECT(ops->upgrade(lock, &b), 0);
		ops->unlock(lock, &b);
		ops->unlock(lock, &a);
	}
	/* An upgrade that cannot succeed leaves the hold as it was. */
	EXPECT(ops->acquire[T_READ][T_SLEEP](lock, &a, 0, unit), 0);
	EXPECT(ops->acquire[T_READ][T_SLEEP](lock, &b, 0, 20 * unit), 0);
	EXPECT(ops->upgrade(lock, &a), -EBUSY);
	EXPECT(ops->upgrade(lock, &b), -EBUSY);
	ops->unlock(lock, &b);
	EXPECT(ops->upgrade(lock, &a), 0);
	EXPECT(ops->acquire[T_READ][T_TRY](lock, &b, 0, unit), -EBUSY);
	/* A task that is killed while it waits leaves no trace. */
	task = kthread_run(wait_and_die, &test, "spanlock_dies");
	if (!IS_ERR(task)) {
		msleep(20);
		EXPECT(READ_ONCE(test.ended), false);
		send_sig(SIGKILL, task, 1);
		for (i = 0; i < 500 && !READ_ONCE(test.ended); i++)
			msleep(10);
		EXPECT(READ_ONCE(test.ended), true);
		EXPECT(test.result, -EINTR);
		/* It was behind this hold for the first unit only: nothing keeps others out. */
		EXPECT(ops->acquire[T_WRITE][T_TRY](lock, &b, unit, 10 * unit), 0);
		ops->unlock(lock, &b);
	}
	ops->unlock(lock, &a);
	if (!IS_ERR(task))
		kthread_stop(task);
	EXPECT(ops->acquire[T_WRITE][T_TRY](lock, &a, 0, capacity), 0);
	ops->unlock(lock, &a);
	ops->destroy(lock);
}
