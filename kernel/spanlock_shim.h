/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the shim provides: to the Rust object, and to the torture. */
#ifndef SPANLOCK_SHIM_H
#define SPANLOCK_SHIM_H

#include <linux/atomic.h>
#include <linux/types.h>

struct task_struct;

void spanlock_heavy_barrier(void);
void spanlock_spin_lock(unsigned int *word);
void spanlock_spin_unlock(unsigned int *word);
void spanlock_sleep_lock(unsigned int *word);
void spanlock_sleep_unlock(unsigned int *word);
void *spanlock_task(void);
void spanlock_task_get(struct task_struct *task);
void spanlock_task_put(struct task_struct *task);
void spanlock_task_wake(struct task_struct *task);
int spanlock_task_sleep(const unsigned int *word, unsigned int value, int how);
int spanlock_rcu_enter(void);
void spanlock_rcu_leave(int index);
void spanlock_rcu_synchronize(void);
unsigned long long spanlock_now(void);
void *spanlock_alloc(unsigned long size, unsigned long align, bool zeroed);
void spanlock_free(void *memory);
void spanlock_panic(const char *file, unsigned long len, unsigned int line);
bool spanlock_is_bug(const char *name, unsigned long len);

/* Counts, and the switch of the test of failing allocations. */
extern atomic_long_t spanlock_alive, spanlock_allocations, spanlock_sleeps;
extern unsigned int spanlock_fail_every;

#endif
