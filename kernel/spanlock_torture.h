/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The families of locks, as the torture calls them. */
#ifndef SPANLOCK_TORTURE_H
#define SPANLOCK_TORTURE_H

#include "spanlock.h"
#include "spanlock_shim.h"

enum { T_READ, T_UPGRADABLE, T_WRITE, T_ACCESSES };
enum { T_SLEEP, T_KILLABLE, T_TRY, T_WAITS };

/* Requests for more units than this are wide. */
#define TORTURE_WIDE 16

union torture_lock {
	struct srl srl;
	struct srl_packed srl_packed;
	struct srl_tree srl_tree;
	struct interval interval;
};

typedef int torture_acquire(union torture_lock *, struct range_hold *, u64, u64);

struct torture_ops {
	const char *name;
	u64 unit;	/* positions in a unit */
	bool rounds;	/* whether ranges are rounded to units */
	int (*init)(union torture_lock *lock, u64 capacity);
	void (*destroy)(union torture_lock *lock);
	torture_acquire *acquire[T_ACCESSES][T_WAITS];
	void (*unlock)(union torture_lock *lock, struct range_hold *hold);
	void (*downgrade)(union torture_lock *lock, struct range_hold *hold);
	int (*upgrade)(union torture_lock *lock, struct range_hold *hold);
	int (*upgrade_wait)(union torture_lock *lock, struct range_hold *hold);
	unsigned long (*shrink)(union torture_lock *lock, u64 start, u64 end);
};

/* Returns the family of this name, or NULL. */
const struct torture_ops *torture_find(const char *name);

/* Tests what a lock does with bad input, and counts what is wrong. */
void torture_self_test(const struct torture_ops *ops, union torture_lock *lock,
		       atomic_long_t *violations);

#endif
