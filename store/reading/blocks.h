/* Memory for the columns of batches. Fresh pages of the kernel cost as much time as filling them.
 * So the blocks of freed batches are kept for later ones, up to a limit. */
#ifndef SILO_BLOCKS_H
#define SILO_BLOCKS_H

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    BLOCKS_KEPT = 64,
    BLOCK_LEAST = 16 << 10,        /* smaller ones come from malloc, which is fast enough */
    BLOCKS_MOST_BYTES = 128 << 20, /* of all kept blocks together */
    BLOCK_WASTE = 4,               /* a block may have so many times the requested bytes */
};

static struct {
    void *data;
    size_t room;
} silo_blocks[BLOCKS_KEPT];
static size_t silo_blocks_bytes;
static int silo_blocks_count;
static char silo_blocks_lock; /* a spin lock for the list: any thread may free a batch */

static inline void silo_blocks_enter(void) {
    while (__atomic_test_and_set(&silo_blocks_lock, __ATOMIC_ACQUIRE)) sched_yield();
}

static inline void silo_blocks_leave(void) { __atomic_clear(&silo_blocks_lock, __ATOMIC_RELEASE); }

/* Returns at least *room bytes, and sets *room to their number. NULL without memory. */
static inline void *silo_block_take(size_t *room) {
    if (*room < BLOCK_LEAST) return malloc(*room);
    int best = -1;
    void *data = NULL;
    silo_blocks_enter();
    for (int i = 0; i < silo_blocks_count; i++)
        if (silo_blocks[i].room >= *room && silo_blocks[i].room / BLOCK_WASTE <= *room &&
            (best < 0 || silo_blocks[i].room < silo_blocks[best].room))
            best = i;
    if (best >= 0) {
        data = silo_blocks[best].data;
        *room = silo_blocks[best].room;
        silo_blocks_bytes -= *room;
        silo_blocks[best] = silo_blocks[--silo_blocks_count];
    }
    silo_blocks_leave();
    return data ? data : malloc(*room);
}

/* Keeps a block for later, or frees it. `data` may be NULL. */
static inline void silo_block_give(void *data, size_t room) {
    if (data && room >= BLOCK_LEAST) {
        silo_blocks_enter();
        if (silo_blocks_count < BLOCKS_KEPT && silo_blocks_bytes + room <= BLOCKS_MOST_BYTES) {
            silo_blocks[silo_blocks_count].data = data;
            silo_blocks[silo_blocks_count++].room = room;
            silo_blocks_bytes += room;
            data = NULL;
        }
        silo_blocks_leave();
    }
    free(data);
}

#endif
