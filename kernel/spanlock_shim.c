// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Everything that the locks ask of the kernel: see the table in sync/src/world/kernel.rs.
 */
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/timekeeping.h>
#include <linux/wait_bit.h>

#include "spanlock.h"
#include "spanlock_shim.h"

/* The barrier of the side that runs rarely: a full barrier on every core. */

static void barrier_here(void *unused)
{
	smp_mb();
}

void spanlock_heavy_barrier(void)
{
	smp_mb();
	preempt_disable();
	smp_call_function(barrier_here, NULL, 1);
	preempt_enable();
	smp_mb();
}

/*
 * What lockdep learns of the two locks below: one class each. The shards of an interval lock are
 * locked in ascending order, so a task may hold several short locks.
 */
#ifdef CONFIG_LOCKDEP
static struct lockdep_map spin_map = STATIC_LOCKDEP_MAP_INIT("spanlock_spin", &spin_map);
static struct lockdep_map sleep_map = STATIC_LOCKDEP_MAP_INIT("spanlock_sleep", &sleep_map);
#endif

/* The short lock. Its word lies in the Rust types, 0 while it is unlocked. */

void spanlock_spin_lock(unsigned int *word)
{
	BUILD_BUG_ON(sizeof(arch_spinlock_t) != sizeof(*word));
	preempt_disable();
	lock_map_acquire_read(&spin_map);
	arch_spin_lock((arch_spinlock_t *)word);
}

void spanlock_spin_unlock(unsigned int *word)
{
	lock_map_release(&spin_map);
	arch_spin_unlock((arch_spinlock_t *)word);
	preempt_enable();
}

/* The lock whose holder may sleep. */

void spanlock_sleep_lock(unsigned int *word)
{
	might_sleep();
	lock_map_acquire(&sleep_map);
	wait_var_event(word, cmpxchg_acquire(word, 0, 1) == 0);
}

void spanlock_sleep_unlock(unsigned int *word)
{
	lock_map_release(&sleep_map);
	smp_store_release(word, 0);
	/* Orders the store before the check for waiters. */
	smp_mb();
	wake_up_var(word);
}

/* Tasks. */

void *spanlock_task(void)
{
	return current;
}

void spanlock_task_get(struct task_struct *task)
{
	get_task_struct(task);
}

void spanlock_task_put(struct task_struct *task)
{
	put_task_struct(task);
}

void spanlock_task_wake(struct task_struct *task)
{
	wake_up_process(task);
}

atomic_long_t spanlock_sleeps;

/* Sleeps unless the word has changed. Returns whether a killable task has got a fatal signal. */
int spanlock_task_sleep(const unsigned int *word, unsigned int value, int how)
{
	unsigned int state = how == 1 ? TASK_KILLABLE : TASK_UNINTERRUPTIBLE;

	might_sleep();
	set_current_state(state);
	/* The full barrier in set_current_state pairs with the one in wake_up_process. */
	if (smp_load_acquire(word) == value && !(how == 1 && fatal_signal_pending(current))) {
		atomic_long_inc(&spanlock_sleeps);
		if (how == 2)
			schedule_timeout(msecs_to_jiffies(1) + 1);
		else
			schedule();
	}
	__set_current_state(TASK_RUNNING);
	return how == 1 && fatal_signal_pending(current);
}

/* Read-copy-update whose readers may sleep. */

DEFINE_STATIC_SRCU(spanlock_srcu);

int spanlock_rcu_enter(void)
{
	return srcu_read_lock(&spanlock_srcu);
}

void spanlock_rcu_leave(int index)
{
	srcu_read_unlock(&spanlock_srcu, index);
}

void spanlock_rcu_synchronize(void)
{
	synchronize_srcu_expedited(&spanlock_srcu);
}

unsigned long long spanlock_now(void)
{
	return ktime_get_mono_fast_ns();
}

/* Memory. What is alive is counted, so that a leak is seen when the module is unloaded. */

atomic_long_t spanlock_alive;
atomic_long_t spanlock_allocations;
/* Every so many-th allocation fails; 0: none does. */
unsigned int spanlock_fail_every;
EXPORT_SYMBOL_GPL(spanlock_alive);
EXPORT_SYMBOL_GPL(spanlock_allocations);
EXPORT_SYMBOL_GPL(spanlock_sleeps);
EXPORT_SYMBOL_GPL(spanlock_fail_every);

void *spanlock_alloc(unsigned long size, unsigned long align, bool zeroed)
{
	/*
	 * Under the short lock, the task must not sleep. Elsewhere it may be in a read-side critical
	 * section, so memory must not be reclaimed through a file system, which may shrink a tree and
	 * wait for this section.
	 */
	gfp_t flags = (preemptible() ? GFP_NOFS : GFP_ATOMIC) | __GFP_NOWARN;
	unsigned int every = READ_ONCE(spanlock_fail_every);
	long count = atomic_long_inc_return(&spanlock_allocations);
	void *memory;

	if (every && count % every == 0)
		return NULL;
	if (zeroed)
		flags |= __GFP_ZERO;
	/* Only sizes that are powers of two are aligned to more than this. */
	if (align > ARCH_KMALLOC_MINALIGN)
		size = roundup_pow_of_two(size);
	memory = kvmalloc(size, flags);
	if (memory)
		atomic_long_inc(&spanlock_alive);
	return memory;
}

void spanlock_free(void *memory)
{
	atomic_long_dec(&spanlock_alive);
	kvfree(memory);
}

void spanlock_panic(const char *file, unsigned long len, unsigned int line)
{
	pr_emerg("spanlock: panic at %.*s:%u\n", (int)len, file ? file : "", line);
	BUG();
}

#ifdef SPANLOCK_BUGS
/* The build for kernel/defects: the name of the bug that the locks inject. */
static char *bug = "";
module_param(bug, charp, 0444);
MODULE_PARM_DESC(bug, "the bug that the locks inject");

bool spanlock_is_bug(const char *name, unsigned long len)
{
	return strlen(bug) == len && !memcmp(bug, name, len);
}
#endif

#define EXPORT_FAMILY(family) \
	EXPORT_SYMBOL_GPL(family##_init); \
	EXPORT_SYMBOL_GPL(family##_destroy); \
	EXPORT_SYMBOL_GPL(family##_read_lock); \
	EXPORT_SYMBOL_GPL(family##_read_lock_killable); \
	EXPORT_SYMBOL_GPL(family##_read_trylock); \
	EXPORT_SYMBOL_GPL(family##_upgradable_lock); \
	EXPORT_SYMBOL_GPL(family##_upgradable_lock_killable); \
	EXPORT_SYMBOL_GPL(family##_upgradable_trylock); \
	EXPORT_SYMBOL_GPL(family##_write_lock); \
	EXPORT_SYMBOL_GPL(family##_write_lock_killable); \
	EXPORT_SYMBOL_GPL(family##_write_trylock); \
	EXPORT_SYMBOL_GPL(family##_unlock); \
	EXPORT_SYMBOL_GPL(family##_downgrade); \
	EXPORT_SYMBOL_GPL(family##_upgrade)

EXPORT_FAMILY(srl);
EXPORT_FAMILY(srl_packed);
EXPORT_FAMILY(srl_tree);
EXPORT_FAMILY(interval);
EXPORT_SYMBOL_GPL(interval_upgrade_wait);
EXPORT_SYMBOL_GPL(srl_tree_shrink);
EXPORT_SYMBOL_GPL(srl_tree_memory);

static int __init spanlock_load(void)
{
	return 0;
}

static void __exit spanlock_unload(void)
{
	long alive = atomic_long_read(&spanlock_alive);

	WARN(alive, "spanlock: %ld allocations leaked\n", alive);
}

module_init(spanlock_load);
module_exit(spanlock_unload);
MODULE_DESCRIPTION("Range locks");
MODULE_LICENSE("Dual MIT/GPL");
