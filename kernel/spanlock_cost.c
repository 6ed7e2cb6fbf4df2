// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts the instructions of an uncontended acquisition and its release. Only of use in an emulator
 * that counts instructions instead of time (QEMU's -icount shift=0): there, a cycle is an
 * instruction.
 */
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <asm/msr.h>

#include "spanlock_torture.h"

#define TIMES 1000

/* Returns the cycles of a thousand runs of a statement, less those of the loop. */
#define COUNT(statement) ({ \
	unsigned long flags, start, end, empty; \
	unsigned int i; \
	local_irq_save(flags); \
	start = rdtsc_ordered(); \
	for (i = 0; i < TIMES; i++) \
		barrier(); \
	end = rdtsc_ordered(); \
	empty = end - start; \
	start = rdtsc_ordered(); \
	for (i = 0; i < TIMES; i++) { \
		statement; \
		barrier(); \
	} \
	end = rdtsc_ordered(); \
	local_irq_restore(flags); \
	end - start - empty; \
})

#define REPORT(name, write, read) \
	pr_info("spanlock: cost %-10s write %3lu read %3lu\n", name, \
		COUNT(write) / TIMES, COUNT(read) / TIMES)

#define PAIR(lock, family, how) ({ \
	if (!family##_##how(&lock->family, &hold, 5 << 12, 6 << 12)) \
		family##_unlock(&lock->family, &hold); \
})

#define FAMILY_COST(family) do { \
	PAIR(lock, family, write_lock); /* makes what is made on first use */ \
	REPORT(#family, PAIR(lock, family, write_lock), PAIR(lock, family, read_lock)); \
	family##_destroy(&lock->family); \
} while (0)

static int __init cost_load(void)
{
	union torture_lock *lock = kzalloc(sizeof(*lock), GFP_KERNEL);
	static DECLARE_RWSEM(semaphore);
	static DEFINE_SPINLOCK(spin);
	struct range_hold hold;

	if (!lock)
		return -ENOMEM;
	REPORT("rwsem", ({ down_write(&semaphore); up_write(&semaphore); }),
	       ({ down_read(&semaphore); up_read(&semaphore); }));
	REPORT("spinlock", ({ spin_lock(&spin); spin_unlock(&spin); }),
	       ({ spin_lock(&spin); spin_unlock(&spin); }));
	if (!srl_init(&lock->srl, 1 << 24, 4096, 0))
		FAMILY_COST(srl);
	if (!srl_packed_init(&lock->srl_packed, 1 << 24, 4096, 0))
		FAMILY_COST(srl_packed);
	if (!srl_tree_init(&lock->srl_tree, 1 << 24, 4096, 0))
		FAMILY_COST(srl_tree);
	if (!interval_init(&lock->interval, 0, 0))
		FAMILY_COST(interval);
	kfree(lock);
	return 0;
}

static void __exit cost_unload(void)
{
}

module_init(cost_load);
module_exit(cost_unload);
MODULE_DESCRIPTION("Instructions of the range locks");
MODULE_LICENSE("Dual MIT/GPL");
