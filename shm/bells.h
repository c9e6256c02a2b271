/* Session bells as the store's processes ring them; shm/bell.py explains them and owns the page. */
#ifndef SILO_BELLS_H
#define SILO_BELLS_H

#include <stdint.h>
#include <sys/socket.h>

#include "shm/layout.h"
#include "shm/words.h"

/* One bell: the client's page, the store's end of the sockets, and the sleep that was rung last. */
typedef struct {
    const uint8_t *page; /* NULL: no bell */
    uint64_t rung;
    int end;
} silo_bell;

typedef struct {
    silo_bell *items;
    int count;
} silo_bells;

/* Rings, whatever the page says. A socket that is full or closed is no error. */
static inline void silo_ring_now(const silo_bell *bell) {
    (void)!send(bell->end, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Rings if the client sleeps for `reason` and was not rung since it fell asleep. Returns whether it
 * rang. To be called after the word was published, and a fence. */
static inline int silo_ring_bell(silo_bell *bell, uint64_t reason) {
    uint64_t asleep = silo_load(bell->page + BELL_ASLEEP); /* SYNC: bell-asleep observe */
    if (!(asleep & reason) || asleep == bell->rung)
        return 0;
    bell->rung = asleep;
    silo_ring_now(bell);
    return 1;
}

/* Whether the client watches one of these arrival words. */
static inline int silo_watches(const silo_bell *bell, const uint64_t *arrivals) {
    for (int i = 0; i < ARRIVAL_WORDS / 64; i++)
        if (arrivals[i] & silo_load(bell->page + BELL_WATCHED + 8 * i))
            return 1;
    return 0;
}

#endif
