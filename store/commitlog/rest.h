/* How append rests while no ring has work: it spins while work comes soon, then sleeps in its
 * epoll. */
#ifndef SILO_REST_H
#define SILO_REST_H

#include <stdint.h>
#include <sys/epoll.h>

#include "shm/layout.h"
#include "shm/pauses.h"
#include "shm/spin.h"
#include "shm/words.h"
#include "store/commitlog/turns.h"

enum { REST_EVENTS = 8 };

typedef struct {
    int epoll, inbox, signals; /* descriptors: where append sleeps, and what its caller reads */
    silo_pauses pauses;
    silo_spin spin;
} silo_rest;

/* One turn of a spin, when the clock shows `now`. Returns the time afterwards, or 0: to sleep. */
static inline int64_t silo_spin_on(silo_rest *rest, const silo_census *census, int64_t now,
                                   int64_t spin_ns) {
    if (!silo_may_spin(&rest->pauses, now, spin_ns)) return 0;
    if (!silo_spins_on(&rest->spin, now, census->crowded)) return 0;
    if (census->streams && !census->crowded) return silo_yield();
    return silo_spin_turn(&rest->spin, rest->pauses.since, now, census->crowded);
}

/* Whether something keeps the store from taking messages, or does no longer: a number that is
 * another one then. The caller decides which status puts get. */
static inline uint64_t silo_hindrances(const uint8_t *control) {
    return silo_load(control + CONTROL_FAILED) + (silo_load(control + CONTROL_FLUSH_ERROR) << 16) +
           (silo_load(control + CONTROL_DISK_FLAGS) << 32);
}

/* Announces sleep. 0, and awake again, if a ring or the mail has work after all. */
static inline int silo_announce(uint8_t *control, const silo_rings *rings, uint64_t seen_mail) {
    silo_store(control + CONTROL_APPEND_ASLEEP, 1); /* SYNC: append-asleep publish */
    silo_fence();
    if (silo_load(control + CONTROL_APPEND_MAIL) == seen_mail && !silo_any_work(rings))
        return 1;
    silo_store(control + CONTROL_APPEND_ASLEEP, 0);
    return 0;
}

/* Sleeps until `until` at most. 1 if there may be work, and 0 if the caller must act. */
static inline int silo_sleep(const silo_rest *rest, uint8_t *control, const silo_rings *rings,
                             uint64_t seen_mail, int64_t until) {
    struct epoll_event events[REST_EVENTS];
    uint64_t hindrances = silo_hindrances(control);
    int64_t left = until - silo_monotonic_ns();
    int count, i;
    if (left <= 0) return 0;
    if (!silo_announce(control, rings, seen_mail)) return 1;
    count = epoll_wait(rest->epoll, events, REST_EVENTS, (int)(left / 1000000) + 1);
    silo_store(control + CONTROL_APPEND_ASLEEP, 0);
    for (i = 0; i < count; i++)
        if (events[i].data.fd == rest->inbox || events[i].data.fd == rest->signals) return 0;
    return count > 0 && silo_hindrances(control) == hindrances;
}

#endif
