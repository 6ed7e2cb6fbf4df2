// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A torture of one family of locks. Loading the module runs it; the result is in the kernel's log.
 *
 * Each position of the lock belongs to a unit: a segment, or as many positions of an interval. A
 * unit has a shadow of its holders, and a counter in two halves. Every holder checks the shadow,
 * every writer increments both halves, and every reader checks that nothing changes. In the end,
 * the counters are compared with what each thread has counted.
 *
 * The threads run in rounds. At the end of a round each thread waits for the others, so a thread
 * whose wake was lost stays where it is, and the watch finds it.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "spanlock_torture.h"

static char *lock = "srl";
module_param(lock, charp, 0444);
MODULE_PARM_DESC(lock, "srl, srl_packed, srl_tree, interval; none: without a lock, which must fail");
static unsigned int threads = 4;
module_param(threads, uint, 0444);
MODULE_PARM_DESC(threads, "how many threads acquire ranges");
static unsigned long acquisitions = 100000;
module_param(acquisitions, ulong, 0444);
MODULE_PARM_DESC(acquisitions, "how many ranges they acquire together");
static unsigned int seconds = 600;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "end early after this time");
static unsigned int stall = 10;
module_param(stall, uint, 0444);
MODULE_PARM_DESC(stall, "the watch fails when a thread gets nothing for so many seconds");
static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the random numbers");
static unsigned int round = 64;
module_param(round, uint, 0444);
MODULE_PARM_DESC(round, "how many requests each thread makes before it waits for the others");

static unsigned int fail;
module_param(fail, uint, 0444);
MODULE_PARM_DESC(fail, "every so many-th allocation of the locks fails; 0: none");
static unsigned int yields = 5;
module_param(yields, uint, 0444);
MODULE_PARM_DESC(yields, "how often a holder lets other threads run, in percent");

#define UNITS 64
#define MOST_THREADS 32

enum { WRITTEN = -1 };

struct unit {
	atomic_t holders;	/* readers, or WRITTEN */
	atomic_t upgradable;	/* upgradable holders */
	unsigned long low ____cacheline_aligned;
	unsigned long high ____cacheline_aligned;
};

struct worker {
	struct task_struct *task;
	unsigned int id;
	u64 random;
	unsigned long done;		/* ranges acquired */
	unsigned long reads, writes, refused, killed, upgrades, downgrades, widest;
	unsigned long written[UNITS];	/* how often this worker has changed each unit */
	unsigned long since;		/* when it last got something */
	bool busy;			/* in a request */
	bool ended;
};

static const struct torture_ops *ops;
static struct unit *units;
static struct worker *workers;
static union torture_lock *tortured;
static atomic_long_t violations;
static atomic_long_t acquired;
static bool stop;		/* no further requests */
static bool over;		/* no further rounds; changed only before a round's first meeting */

static DECLARE_WAIT_QUEUE_HEAD(meeting);
static atomic_t arrived;
static int meetings;

static u32 below(struct worker *w, u32 bound)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return ((w->random >> 32) * (u64)bound) >> 32;
}

static __printf(1, 2) void violation(const char *format, ...)
{
	va_list args;

	if (atomic_long_inc_return(&violations) <= 10) {
		va_start(args, format);
		vprintk(format, args);
		va_end(args);
	}
	WRITE_ONCE(stop, true);
}

/* The shadow. */

static void begin(struct worker *w, unsigned int first, unsigned int end, int access)
{
	unsigned int u;

	for (u = first; u < end; u++) {
		struct unit *unit = &units[u];

		if (access == T_WRITE) {
			int was = atomic_cmpxchg(&unit->holders, 0, WRITTEN);

			if (was)
				violation(KERN_ERR "spanlock: %u writes unit %u beside %d\n",
					  w->id, u, was);
			continue;
		}
		if (atomic_inc_return(&unit->holders) <= 0)
			violation(KERN_ERR "spanlock: %u reads unit %u beside a writer\n", w->id, u);
		if (access == T_UPGRADABLE && atomic_inc_return(&unit->upgradable) != 1)
			violation(KERN_ERR "spanlock: two upgradable holders of unit %u\n", u);
	}
}

static void finish(struct worker *w, unsigned int first, unsigned int end, int access)
{
	unsigned int u;

	for (u = first; u < end; u++) {
		struct unit *unit = &units[u];

		if (access == T_WRITE) {
			if (atomic_xchg(&unit->holders, 0) != WRITTEN)
				violation(KERN_ERR "spanlock: %u did not write unit %u alone\n",
					  w->id, u);
			continue;
		}
		if (access == T_UPGRADABLE)
			atomic_dec(&unit->upgradable);
		if (atomic_dec_return(&unit->holders) < 0)
			violation(KERN_ERR "spanlock: %u did not read unit %u\n", w->id, u);
	}
}

static void pass_time(struct worker *w)
{
	u32 chance = below(w, 4096);
	u32 spins = below(w, 16);

	if (chance == 0)
		usleep_range(50, 1000);
	else if (chance < 41 * yields)
		schedule();
	else
		while (spins--)
			barrier();
}

static void use(struct worker *w, unsigned int first, unsigned int end, int access)
{
	unsigned int u;

	if (access == T_WRITE) {
		for (u = first; u < end; u++) {
			struct unit *unit = &units[u];
			unsigned long value = READ_ONCE(unit->low);

			if (value != READ_ONCE(unit->high))
				violation(KERN_ERR "spanlock: a writer finds unit %u half changed\n", u);
			WRITE_ONCE(unit->low, value + 1);
			if (u == first)
				pass_time(w);
			WRITE_ONCE(unit->high, value + 1);
			w->written[u]++;
		}
		w->writes++;
		return;
	}
	for (u = first; u < end; u++) {
		struct unit *unit = &units[u];
		unsigned long value = READ_ONCE(unit->low);

		if (u == first)
			pass_time(w);
		if (value != READ_ONCE(unit->high) || value != READ_ONCE(unit->low))
			violation(KERN_ERR "spanlock: unit %u changes under a reader\n", u);
	}
	w->reads++;
}

/* Changes of a hold. Returns the access that it has afterwards. */
static int change(struct worker *w, struct range_hold *hold, unsigned int first,
		  unsigned int end, int access)
{
	unsigned int u;
	int result;

	if (access == T_WRITE) {
		for (u = first; u < end; u++)
			atomic_set(&units[u].holders, 1);
		ops->downgrade(tortured, hold);
		w->downgrades++;
		return T_READ;
	}
	if (access == T_UPGRADABLE && ops->upgrade_wait && below(w, 2))
		result = ops->upgrade_wait(tortured, hold);
	else
		result = ops->upgrade(tortured, hold);
	if (result == -EBUSY)
		return access;
	if (result) {
		violation(KERN_ERR "spanlock: an upgrade returns %d\n", result);
		return access;
	}
	for (u = first; u < end; u++) {
		int was = atomic_cmpxchg(&units[u].holders, 1, WRITTEN);

		if (access == T_UPGRADABLE)
			atomic_dec(&units[u].upgradable);
		if (was != 1)
			violation(KERN_ERR "spanlock: %u upgrades unit %u beside %d\n", w->id, u, was);
	}
	w->upgrades++;
	return T_WRITE;
}

static void one_request(struct worker *w)
{
	struct range_hold hold;
	unsigned int first, len, end;
	int access, wait, result;
	u32 chance = below(w, 100);
	u64 from, to;

	/* Half of the requests meet in a few units. */
	first = below(w, 2) ? below(w, 4) : below(w, UNITS);
	if (chance < 60)
		len = 1;
	else if (chance < 85)
		len = 1 + below(w, 4);
	else if (chance < 97)
		len = 1 + below(w, TORTURE_WIDE);
	else
		len = 1 + below(w, UNITS);
	chance = below(w, 100);
	/* Some rounds are all about one unit: its readers, or its writers. */
	switch (READ_ONCE(meetings) % 8) {
	case 0:
		first = 0;
		len = 1;
		access = chance < 2 ? T_WRITE : T_READ;
		break;
	case 4:
		first = 0;
		len = 1 + (chance < 10);
		access = chance < 80 ? T_WRITE : T_READ;
		break;
	default:
		access = chance < 40 ? T_WRITE : chance < 90 ? T_READ : T_UPGRADABLE;
	}
	end = min_t(unsigned int, first + len, UNITS);
	chance = below(w, 100);
	wait = chance < 60 ? T_SLEEP : chance < 80 ? T_KILLABLE : T_TRY;
	from = first * ops->unit;
	to = end * ops->unit;
	if (ops->rounds) {
		from += below(w, ops->unit);
		to -= below(w, ops->unit);
		if (from >= to)
			to = from + 1;
	}
	/* Otherwise, a signal is often pending already, and few tasks are killed while they sleep. */
	if (wait == T_KILLABLE && below(w, 4))
		flush_signals(current);
	result = ops->acquire[access][wait](tortured, &hold, from, to);
	if (result == -EBUSY && wait == T_TRY) {
		w->refused++;
		return;
	}
	if (result == -EINTR && wait == T_KILLABLE) {
		flush_signals(current);
		w->killed++;
		return;
	}
	if (result == -ENOMEM && READ_ONCE(spanlock_fail_every)) {
		w->refused++;
		return;
	}
	if (result) {
		violation(KERN_ERR "spanlock: %s %d..%d returns %d\n", ops->name, first, end, result);
		return;
	}
	w->done++;
	w->widest = max_t(unsigned long, w->widest, end - first);
	begin(w, first, end, access);
	use(w, first, end, access);
	if (below(w, 100) < 15) {
		access = change(w, &hold, first, end, access);
		use(w, first, end, access);
	}
	finish(w, first, end, access);
	ops->unlock(tortured, &hold);
}

/* Waits until all threads have come. */
static void meet(void)
{
	int now = READ_ONCE(meetings);

	if (atomic_inc_return(&arrived) == threads) {
		atomic_set(&arrived, 0);
		smp_store_release(&meetings, now + 1);
		wake_up_all(&meeting);
		return;
	}
	wait_event(meeting, READ_ONCE(meetings) != now);
}

static int work(void *data)
{
	struct worker *w = data;
	unsigned long done;
	unsigned int i;
	bool ends;

	allow_signal(SIGKILL);
	for (;;) {
		done = w->done;
		WRITE_ONCE(w->since, jiffies);
		WRITE_ONCE(w->busy, true);
		for (i = 0; i < round && !READ_ONCE(stop); i++) {
			one_request(w);
			WRITE_ONCE(w->since, jiffies);
		}
		WRITE_ONCE(w->busy, false);
		if (atomic_long_add_return(w->done - done, &acquired) >= (long)acquisitions)
			WRITE_ONCE(stop, true);
		if (READ_ONCE(stop))
			WRITE_ONCE(over, true);
		meet();
		ends = READ_ONCE(over);
		meet();
		if (ends)
			break;
		cond_resched();
	}
	WRITE_ONCE(w->ended, true);
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return 0;
}

/* Sends fatal signals to threads that may wait. */
static int kill_some(void *data)
{
	struct worker *w = data;
	unsigned int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < 3; i++)
			send_sig(SIGKILL, workers[below(w, threads)].task, 1);
		usleep_range(100, 1000);
	}
	return 0;
}

/* Frees the memory of units that nobody holds. */
static int shrink_some(void *data)
{
	struct worker *w = data;

	while (!kthread_should_stop()) {
		u64 first = below(w, UNITS);

		w->done += ops->shrink(tortured, first * ops->unit, UNITS * ops->unit);
		w->writes++;
		usleep_range(100, 3000);
	}
	return 0;
}

/* Returns the first thread that has got nothing for too long, or NULL. */
static struct worker *stuck(void)
{
	unsigned int i;

	for (i = 0; i < threads; i++)
		if (READ_ONCE(workers[i].busy) &&
		    time_after(jiffies, READ_ONCE(workers[i].since) + stall * HZ))
			return &workers[i];
	return NULL;
}

static bool all_ended(void)
{
	unsigned int i;

	for (i = 0; i < threads; i++)
		if (!READ_ONCE(workers[i].ended))
			return false;
	return true;
}

static void compare_counts(void)
{
	unsigned int i, u;

	for (u = 0; u < UNITS; u++) {
		unsigned long expected = 0;

		for (i = 0; i < threads; i++)
			expected += workers[i].written[u];
		if (units[u].low != expected || units[u].high != expected)
			violation(KERN_ERR "spanlock: unit %u counts %lu and %lu of %lu writes\n",
				  u, units[u].low, units[u].high, expected);
		if (atomic_read(&units[u].holders) || atomic_read(&units[u].upgradable))
			violation(KERN_ERR "spanlock: unit %u is still held\n", u);
	}
}

static void report(unsigned long start, struct worker *shrinker, long allocations, long sleeps)
{
	struct worker sum = {};
	unsigned long least = ULONG_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < threads; i++) {
		struct worker *w = &workers[i];

		sum.done += w->done;
		sum.reads += w->reads;
		sum.writes += w->writes;
		sum.refused += w->refused;
		sum.killed += w->killed;
		sum.upgrades += w->upgrades;
		sum.downgrades += w->downgrades;
		sum.widest = max(sum.widest, w->widest);
		least = min(least, w->done);
		most = max(most, w->done);
	}
	pr_info("spanlock: %s: acquired %lu, a thread %lu to %lu; reads %lu, writes %lu, refused %lu, killed %lu, upgraded %lu, downgraded %lu, widest %lu, sleeps %ld, allocations %ld, shrunk %lu times %lu bytes, %u ms\n",
		ops->name, sum.done, least, most, sum.reads, sum.writes, sum.refused, sum.killed,
		sum.upgrades, sum.downgrades, sum.widest, sleeps, allocations, shrinker->writes,
		shrinker->done, jiffies_to_msecs(jiffies - start));
	if (sum.done < threads || !sum.reads || !sum.writes)
		violation(KERN_ERR "spanlock: the threads got nothing\n");
}

static struct task_struct *new_thread(int (*f)(void *), struct worker *w, const char *name)
{
	struct task_struct *task;

	w->random = seed * 0x9e3779b97f4a7c15ULL + (w->id + 1) * 0xd1342543de82ef95ULL;
	w->since = jiffies;
	task = kthread_create(f, w, "%s/%u", name, w->id);
	if (IS_ERR(task))
		return NULL;
	get_task_struct(task);
	return task;
}

static void stop_thread(struct task_struct *task)
{
	if (task) {
		kthread_stop(task);
		put_task_struct(task);
	}
}

/* Returns false if threads are stuck, so that the memory and the module must stay. */
static bool torture(void)
{
	struct worker extra[2] = { { .id = MOST_THREADS }, { .id = MOST_THREADS + 1 } };
	struct task_struct *killer, *shrinker = NULL;
	long allocations = atomic_long_read(&spanlock_allocations);
	long sleeps = atomic_long_read(&spanlock_sleeps);
	unsigned long start = jiffies;
	struct worker *late;
	unsigned int i;

	for (i = 0; i < threads; i++) {
		workers[i].id = i;
		workers[i].task = new_thread(work, &workers[i], "spanlock");
		if (!workers[i].task) {
			violation(KERN_ERR "spanlock: no memory for threads\n");
			threads = i;
		}
	}
	for (i = 0; i < threads; i++)
		wake_up_process(workers[i].task);
	killer = new_thread(kill_some, &extra[0], "spanlock_kill");
	if (killer)
		wake_up_process(killer);
	if (ops->shrink)
		shrinker = new_thread(shrink_some, &extra[1], "spanlock_shrink");
	if (shrinker)
		wake_up_process(shrinker);
	while (!all_ended()) {
		schedule_timeout_uninterruptible(HZ / 20 + 1);
		if (time_after(jiffies, start + seconds * HZ))
			WRITE_ONCE(stop, true);
		late = stuck();
		if (late) {
			violation(KERN_ERR "spanlock: thread %u got nothing for %u seconds, after %lu ranges\n",
				  late->id, stall, late->done);
			stop_thread(killer);
			return false;
		}
	}
	stop_thread(killer);
	stop_thread(shrinker);
	for (i = 0; i < threads; i++)
		stop_thread(workers[i].task);
	compare_counts();
	report(start, &extra[1], atomic_long_read(&spanlock_allocations) - allocations,
	       atomic_long_read(&spanlock_sleeps) - sleeps);
	return true;
}

static int __init torture_load(void)
{
	long alive = atomic_long_read(&spanlock_alive);
	bool ended = true;
	int result = -ENOMEM;

	ops = torture_find(lock);
	if (!ops || !threads || threads > MOST_THREADS || !round)
		return -EINVAL;
	units = vzalloc(UNITS * sizeof(*units));
	workers = vzalloc(MOST_THREADS * sizeof(*workers));
	tortured = vzalloc(sizeof(*tortured));
	if (!units || !workers || !tortured)
		goto out;
	torture_self_test(ops, tortured, &violations);
	result = ops->init(tortured, UNITS * ops->unit);
	if (result)
		goto out;
	WRITE_ONCE(spanlock_fail_every, fail);
	ended = torture();
	WRITE_ONCE(spanlock_fail_every, 0);
	if (!ended) {
		/* The stuck threads run this code: it stays until the guest is switched off. */
		__module_get(THIS_MODULE);
		pr_err("spanlock: FAILED %s: stuck\n", ops->name);
		return 0;
	}
	ops->destroy(tortured);
	if (atomic_long_read(&spanlock_alive) != alive)
		violation(KERN_ERR "spanlock: %ld allocations leaked\n",
			  atomic_long_read(&spanlock_alive) - alive);
	if (atomic_long_read(&violations))
		pr_err("spanlock: FAILED %s: %ld violations\n", ops->name,
		       atomic_long_read(&violations));
	else
		pr_info("spanlock: PASSED %s\n", ops->name);
	result = 0;
out:
	if (result)
		pr_err("spanlock: FAILED %s: error %d\n", ops->name, result);
	vfree(units);
	vfree(workers);
	vfree(tortured);
	return result;
}

static void __exit torture_unload(void)
{
}

module_init(torture_load);
module_exit(torture_unload);
MODULE_DESCRIPTION("Torture of the range locks");
MODULE_LICENSE("Dual MIT/GPL");
