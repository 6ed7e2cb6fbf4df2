/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Range locks: readers and writers of disjoint ranges never block each other.
 *
 *  family      ranges are rounded to   memory                     suited to
 *  srl         segments                4 bytes a segment          files of bounded size
 *  srl_packed  segments                half a byte a segment      requests for many segments
 *  srl_tree    segments                as segments are used       sparse files, truncated files
 *  interval    nothing: exact          150 bytes a request        ranges of any size
 *
 * A segment is a power of two of positions (bytes, sectors, pages: the caller's unit). A hold lies
 * in the memory of its caller, usually on the stack, and says what the release needs. Ranges are
 * half-open: start..end. An empty range locks nothing and never blocks.
 *
 * Context: a task that may sleep. Not in interrupts, not under a spin lock; that holds for the
 * trylocks and releases too, because a request may allocate memory (GFP_NOFS) and a release may
 * wake tasks. A shrinker of the kernel must not call srl_tree_shrink() from GFP_NOFS reclaim.
 * A task that holds a range must not request another one of the same lock in conflict with it.
 *
 * Every function that returns an int returns 0 or a negative error number:
 *
 *  -EINVAL  the range ends before it starts; an argument that no lock takes
 *  -ERANGE  the range ends past the lock's capacity
 *  -EBUSY   a trylock, or an upgrade, would have to wait
 *  -EINTR   a killable request: the task has got a fatal signal
 *  -ENOMEM  there is no memory for the lock's bookkeeping
 *
 * After an error, nothing is held and the hold is empty, so releasing it does nothing; but a hold
 * whose upgrade failed is as before. Only requests and the initializations need memory: releases,
 * downgrades and upgrades never fail for lack of it.
 */
#ifndef SPANLOCK_H
#define SPANLOCK_H

#include <linux/types.h>

/* What a caller holds. Filled in by the lock; not copied, and not changed by the caller. */
struct range_hold {
	u64 start, end;
	unsigned long token;
	u8 access;
	u8 pad[7];
};

/*
 * The locks. Embed them, and let only these functions look inside. As with a mutex, a release may
 * still read the lock after another task has acquired the range: free a lock only when all calls
 * of its functions have returned.
 */
struct srl { u64 opaque[48]; };
struct srl_packed { u64 opaque[48]; };
struct srl_tree { u64 opaque[48]; };
struct interval { u64 opaque[48]; };

/*
 * Initialize a lock for the positions 0..capacity, in segments of this many positions, a power of
 * two. A request for more than wide segments is recorded as one, instead of in each segment's word;
 * 0 chooses the bound. Each lock that was initialized is destroyed once, when nobody uses it.
 */
int __must_check srl_init(struct srl *lock, u64 capacity, u64 segment, u64 wide);
int __must_check srl_packed_init(struct srl_packed *lock, u64 capacity, u64 segment, u64 wide);
int __must_check srl_tree_init(struct srl_tree *lock, u64 capacity, u64 segment, u64 wide);

/*
 * Initialize a lock for the positions 0..U64_MAX, in stripes of this many positions that are divided
 * among so many shards, up to 16, each with a short lock of its own. A 0 stands for the usual value:
 * 65,536 positions, 8 shards. With one shard, the lock is small. A request that meets more requests
 * than ever before allocates room for twice as many.
 */
int __must_check interval_init(struct interval *lock, unsigned int shards, u64 stripe);

#define SPANLOCK_ACQUIRE(family, name) \
	int __must_check family##_##name(struct family *lock, struct range_hold *hold, \
					 u64 start, u64 end)

/*
 * Of each family:
 *
 *  ..._read_lock, ..._upgradable_lock, ..._write_lock: acquire a range; sleep while it is taken.
 *     An upgradable holder excludes other upgradable holders and writers, but no readers.
 *  ..._killable: the same; give up on a fatal signal.
 *  ..._trylock: the same; never wait for another holder.
 *  ..._unlock: release the hold, and wake the tasks that this unblocks. Any task may do it.
 *  ..._downgrade: make a hold a reader's, with no writer in between.
 *  ..._upgrade: make a hold a writer's if that is possible at once, otherwise -EBUSY.
 */
#define SPANLOCK_FAMILY(family) \
	void family##_destroy(struct family *lock); \
	SPANLOCK_ACQUIRE(family, read_lock); \
	SPANLOCK_ACQUIRE(family, read_lock_killable); \
	SPANLOCK_ACQUIRE(family, read_trylock); \
	SPANLOCK_ACQUIRE(family, upgradable_lock); \
	SPANLOCK_ACQUIRE(family, upgradable_lock_killable); \
	SPANLOCK_ACQUIRE(family, upgradable_trylock); \
	SPANLOCK_ACQUIRE(family, write_lock); \
	SPANLOCK_ACQUIRE(family, write_lock_killable); \
	SPANLOCK_ACQUIRE(family, write_trylock); \
	void family##_unlock(struct family *lock, struct range_hold *hold); \
	void family##_downgrade(struct family *lock, struct range_hold *hold); \
	int __must_check family##_upgrade(struct family *lock, struct range_hold *hold)

SPANLOCK_FAMILY(srl);
SPANLOCK_FAMILY(srl_packed);
SPANLOCK_FAMILY(srl_tree);
SPANLOCK_FAMILY(interval);

/* Make an upgradable hold a writer's; sleep until its readers have left. -EINVAL for a reader's. */
int __must_check interval_upgrade_wait(struct interval *lock, struct range_hold *hold);

/*
 * Free the memory of the segments in the range that nobody holds, after a truncate for example.
 * Returns how many bytes were freed. Sleeps.
 */
unsigned long srl_tree_shrink(struct srl_tree *lock, u64 start, u64 end);

/* How many bytes the lock has allocated. */
unsigned long srl_tree_memory(struct srl_tree *lock);

#endif
