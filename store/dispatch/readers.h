/* Wakes the readers of queues that grew, after reput has published. */
#ifndef SILO_READERS_H
#define SILO_READERS_H

#include <limits.h>
#include <stdint.h>

#include "shm/bells.h"
#include "shm/layout.h"
#include "shm/words.h"

/* Wakes the sleepers on the arrival words whose bits are set, and rings the bells of clients that
 * watch one of them. Clears the bits. Returns how many wake-ups met a sleeper.
 *
 * A wake-up is a system call, so only watched words get one. A reader marks its word as watched
 * before it loads it and sleeps. To be called after the words have changed, and a fence. */
static inline uint64_t silo_wake_readers(const uint8_t *control, uint64_t *arrivals,
                                         silo_bells *bells) {
    const uint8_t *words;
    uint64_t moved, woken = 0;
    for (int i = 0; bells && i < bells->count; i++)
        if (silo_watches(&bells->items[i], arrivals))
            woken += silo_ring_bell(&bells->items[i], BELL_ARRIVALS);
    for (int i = 0; i < ARRIVAL_WORDS / 64; i++) {
        words = control + CONTROL_ARRIVAL + 8 * 64 * i;
        /* SYNC: watched observe */
        moved = arrivals[i] & silo_load(control + CONTROL_WATCHED + 8 * i);
        arrivals[i] = 0;
        for (; moved; moved &= moved - 1)
            woken += silo_futex_wake(words + 8 * __builtin_ctzll(moved), INT_MAX) > 0;
    }
    return woken;
}

#endif
