// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A character device of RAM pages, /dev/spanlock_ram: what a file system's read and write paths do
 * with a range lock. A write takes the range of its bytes exclusively, a read takes it shared, and
 * both are killable. Writes of different pages run at the same time. With lock=rwsem, one lock is
 * for the whole device, for comparison.
 *
 * Each page has a version that its writers increment before and after they change it, so a read or
 * a write that meets another writer fails with -EIO.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "spanlock.h"

static unsigned long pages = 1024;
module_param(pages, ulong, 0444);
MODULE_PARM_DESC(pages, "the size of the device");
static char *lock = "tree";
module_param(lock, charp, 0444);
MODULE_PARM_DESC(lock, "tree: a range lock; rwsem: a lock for the whole device");
static unsigned int delay;
module_param(delay, uint, 0644);
MODULE_PARM_DESC(delay, "how many microseconds a write of a page takes, as with a slow medium");
static int most;
module_param(most, int, 0644);
MODULE_PARM_DESC(most, "how many writes have run at the same time, at most");
/* Increments may be lost; one that is not suffices. */
static ulong conflicts;
module_param(conflicts, ulong, 0444);
MODULE_PARM_DESC(conflicts, "how often a read or a write has met another writer");

static u8 *memory;
static atomic_t *versions;
static bool ranges;
static struct srl_tree tree;
static DECLARE_RWSEM(whole);
static atomic_t writing;

static int acquire(struct range_hold *hold, u64 start, u64 end, bool write)
{
	if (ranges && write)
		return srl_tree_write_lock_killable(&tree, hold, start, end);
	if (ranges)
		return srl_tree_read_lock_killable(&tree, hold, start, end);
	return write ? down_write_killable(&whole) : down_read_killable(&whole);
}

static void release(struct range_hold *hold, bool write)
{
	if (ranges)
		srl_tree_unlock(&tree, hold);
	else if (write)
		up_write(&whole);
	else
		up_read(&whole);
}

/* Returns how many bytes a transfer has, or an error number. */
static ssize_t bytes(loff_t at, size_t len)
{
	u64 size = (u64)pages << PAGE_SHIFT;

	if (at < 0)
		return -EINVAL;
	return at >= size ? 0 : min_t(u64, len, size - at);
}

static ssize_t ram_read(struct file *file, char __user *to, size_t len, loff_t *at)
{
	ssize_t count = bytes(*at, len);
	struct range_hold hold;
	u64 page, first, end;
	int before = 0, after = 0, result;

	if (count <= 0)
		return count;
	result = acquire(&hold, *at, *at + count, false);
	if (result)
		return result;
	first = *at >> PAGE_SHIFT;
	end = DIV_ROUND_UP_ULL(*at + count, PAGE_SIZE);
	for (page = first; page < end; page++)
		before += atomic_read(&versions[page]) + (atomic_read(&versions[page]) & 1) * 1000;
	result = copy_to_user(to, memory + *at, count) ? -EFAULT : 0;
	for (page = first; page < end; page++)
		after += atomic_read(&versions[page]);
	if (before != after) {
		conflicts++;
		result = -EIO;
	}
	release(&hold, false);
	if (result)
		return result;
	*at += count;
	return count;
}

static ssize_t ram_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	ssize_t count = bytes(*at, len);
	struct range_hold hold;
	u64 page, first, end;
	int result, now;

	if (!len)
		return 0;
	if (count <= 0)
		return count ? count : -ENOSPC;
	result = acquire(&hold, *at, *at + count, true);
	if (result)
		return result;
	now = atomic_inc_return(&writing);
	if (now > READ_ONCE(most))
		WRITE_ONCE(most, now);
	first = *at >> PAGE_SHIFT;
	end = DIV_ROUND_UP_ULL(*at + count, PAGE_SIZE);
	for (page = first; page < end; page++)
		if (!(atomic_inc_return(&versions[page]) & 1))
			result = -EIO;
	if (delay)
		usleep_range(delay, delay + 50);
	if (copy_from_user(memory + *at, from, count))
		result = result ?: -EFAULT;
	for (page = first; page < end; page++)
		if (atomic_inc_return(&versions[page]) & 1)
			result = -EIO;
	if (result == -EIO)
		conflicts++;
	atomic_dec(&writing);
	release(&hold, true);
	if (result)
		return result;
	*at += count;
	return count;
}

static loff_t ram_seek(struct file *file, loff_t to, int whence)
{
	return fixed_size_llseek(file, to, whence, (loff_t)pages << PAGE_SHIFT);
}

/* A task in a call has the file open, and an open file keeps the module. */
static const struct file_operations ram_operations = {
	.owner = THIS_MODULE,
	.read = ram_read,
	.write = ram_write,
	.llseek = ram_seek,
};

static struct miscdevice ram_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "spanlock_ram",
	.fops = &ram_operations,
};

static void free_all(void)
{
	if (ranges)
		srl_tree_destroy(&tree);
	vfree(memory);
	vfree(versions);
}

static int __init ram_load(void)
{
	int result;

	ranges = !strcmp(lock, "tree");
	if (!pages || (!ranges && strcmp(lock, "rwsem")))
		return -EINVAL;
	if (ranges) {
		result = srl_tree_init(&tree, (u64)pages << PAGE_SHIFT, PAGE_SIZE, 0);
		if (result)
			return result;
	}
	memory = vzalloc(pages << PAGE_SHIFT);
	versions = vzalloc(pages * sizeof(*versions));
	result = memory && versions ? misc_register(&ram_device) : -ENOMEM;
	if (result)
		free_all();
	return result;
}

static void __exit ram_unload(void)
{
	misc_deregister(&ram_device);
	free_all();
}

module_init(ram_load);
module_exit(ram_unload);
MODULE_DESCRIPTION("A device of RAM pages whose reads and writes take ranges");
MODULE_LICENSE("Dual MIT/GPL");
