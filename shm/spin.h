/* How append and producers spin for a word that another process will change.
 *
 * A spin keeps its core at first: the word changes within some microseconds, and a pause sees that
 * first. Later each turn yields the core. While more processes send than there are cores, each turn
 * yields: append says so in the word `crowded`. There sleep costs more than turns. Each message
 * would wake two sleepers, and a core on which all sleep halts. On some virtual machines the host
 * then takes 70 us to wake it.
 *
 * A process that computes takes a yielded core for a whole time slice. After such a yield the spin
 * keeps the core for a while, and for longer after each further one. While it is crowded it sleeps
 * instead: a process that sleeps takes its core from others when it is woken.
 *
 * While producers stream, append yields its core at once. What comes meanwhile makes a longer
 * batch, which costs less for each frame; and nobody waits for an answer. */
#ifndef SILO_SPIN_H
#define SILO_SPIN_H

#include <sched.h>
#include <stdint.h>

#include "shm/words.h"

enum {
    SPIN_ALONE_NS = 20000,    /* no yield before that time */
    SPIN_SLICE_NS = 1000000,  /* a longer yield gave the core to a process that computes */
    SPIN_KEEP_NS = 200000,    /* the first such yield keeps the core for so long */
    SPIN_MOST_NS = 100000000, /* and further ones for so long at most */
};

/* What a process knows of yields. All zeros is a good beginning. */
typedef struct {
    int64_t kept_until, keep_ns; /* no yield before that time; how long it was set for */
} silo_spin;

/* Whether to spin on at `now`, and not to sleep. */
static inline int silo_spins_on(const silo_spin *spin, int64_t now, int crowded) {
    return !crowded || now >= spin->kept_until;
}

/* One turn of a spin that began at `began`, when the clock shows `now`. Returns the time
 * afterwards. */
static inline int64_t silo_spin_turn(silo_spin *spin, int64_t began, int64_t now, int crowded) {
    int64_t after;
    if (now < spin->kept_until || (!crowded && now - began < SPIN_ALONE_NS)) {
        silo_pause();
        return silo_monotonic_ns();
    }
    sched_yield();
    after = silo_monotonic_ns();
    if (after - now > SPIN_SLICE_NS) {
        spin->keep_ns = 2 * spin->keep_ns + SPIN_KEEP_NS;
        if (spin->keep_ns > SPIN_MOST_NS) spin->keep_ns = SPIN_MOST_NS;
        spin->kept_until = after + spin->keep_ns;
    } else {
        spin->keep_ns -= spin->keep_ns / 16;
    }
    return after;
}

/* Yields the core. Returns the time afterwards. */
static inline int64_t silo_yield(void) {
    sched_yield();
    return silo_monotonic_ns();
}

#endif
