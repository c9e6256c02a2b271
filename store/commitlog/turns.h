/* Fair turns between producers' rings: start-time fair queueing (Goyal, Vin and Cheng, 1996).
 *
 * The clock counts virtual bytes. A ring's turn begins at the clock, or at the end of its turn
 * before if that is later. It ends `bytes * weight` further on, where the weight is the number of
 * rings with work that belong to the same user. The ring whose turn begins first is served first,
 * and the clock goes on to that beginning. So users share the log's bytes evenly, and a user's
 * rings share what the user gets. A ring cannot save up turns while it is idle.
 *
 * A ring without a backlog comes first, as long as its turn begins at most one share behind the
 * clock. Otherwise a producer that waits for each answer would, after each message, wait for all
 * rings whose turns begin at the same time. */
#ifndef SILO_TURNS_H
#define SILO_TURNS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shm/bells.h"
#include "shm/layout.h"
#include "shm/words.h"

/* Users are counted in so many classes. Two users of one class get less than their share. */
enum { SILO_USER_CLASSES = 64 };

/* What is kept of a ring: the end of its last turn, its user, and whether work was left then. */
typedef struct {
    uint64_t end;
    uint32_t uid, backlog;
} silo_flow;

/* A producer's ring, as append sees it. */
typedef struct {
    uint8_t *base;
    uint64_t capacity;
    uint64_t tail;      /* behind the last answered frame, which may not be published */
    uint64_t at;        /* tail modulo capacity */
    uint64_t published; /* the tail that its producer can see */
    uint64_t rejected;
    uint64_t counted; /* 1 + number of the census that counted it last */
    uint32_t session;
    int attached;
    silo_flow flow;
    silo_bell bell; /* its session's, if there is one */
} silo_ring;

/* One ring that has work now. `due` orders the turns: it is `begin`, or the clock for a ring that
 * comes first. `rank` decides between turns that are equal otherwise. */
typedef struct {
    silo_ring *ring;
    uint64_t begin, due;
    uint32_t weight, backlog;
    int rank;
} silo_turn;

/* `all` rings by number, in use or not, and those that are `used`, without gaps: append looks at
 * each of them in every batch, and a store has room for many more. `first` is the place in `used`
 * that is looked at first. `turns` has room for all. */
typedef struct {
    silo_ring *all, **used;
    silo_turn *turns;
    int count, first;
} silo_rings;

/* Makes room for `most` rings. Returns whether there was memory for it. */
static inline int silo_make_rings(silo_rings *rings, int most) {
    rings->all = (silo_ring *)calloc((size_t)most, sizeof *rings->all);
    rings->used = (silo_ring **)calloc((size_t)most, sizeof *rings->used);
    rings->turns = (silo_turn *)calloc((size_t)most, sizeof *rings->turns);
    return rings->all && rings->used && rings->turns;
}

static inline void silo_free_rings(silo_rings *rings) {
    free(rings->all);
    free(rings->used);
    free(rings->turns);
}

/* A ring that is in use already stays where it is. */
static inline void silo_use_ring(silo_rings *rings, silo_ring *ring) {
    if (ring->attached)
        return;
    ring->attached = 1;
    rings->used[rings->count++] = ring;
}

/* Takes away a ring that is in use. */
static inline void silo_forget_ring(silo_rings *rings, silo_ring *ring) {
    int i = 0;
    ring->attached = 0;
    while (rings->used[i] != ring)
        i++;
    for (rings->count--; i < rings->count; i++)
        rings->used[i] = rings->used[i + 1];
}

static inline int silo_compare_turns(const void *a, const void *b) {
    const silo_turn *x = (const silo_turn *)a, *y = (const silo_turn *)b;
    if (x->due != y->due)
        return x->due < y->due ? -1 : 1;
    if (x->backlog != y->backlog)
        return x->backlog ? 1 : -1;
    return x->rank - y->rank;
}

/* Orders the rings that have work, whose `ring` is set. A share is in bytes. */
static inline void silo_order_turns(uint64_t clock, uint64_t share, silo_turn *turns, int count) {
    uint32_t rings_of[SILO_USER_CLASSES];
    silo_flow *flow;
    int i;
    memset(rings_of, 0, sizeof rings_of);
    for (i = 0; i < count; i++)
        rings_of[turns[i].ring->flow.uid % SILO_USER_CLASSES]++;
    for (i = 0; i < count; i++) {
        flow = &turns[i].ring->flow;
        turns[i].begin = flow->end > clock ? flow->end : clock;
        turns[i].weight = rings_of[flow->uid % SILO_USER_CLASSES];
        turns[i].backlog = flow->backlog || turns[i].begin - clock > share * turns[i].weight;
        turns[i].due = turns[i].backlog ? turns[i].begin : clock;
        turns[i].rank = i;
        flow->backlog = 1; /* until it has its turn */
    }
    if (count > 1)
        qsort(turns, (size_t)count, sizeof *turns, silo_compare_turns);
}

/* So many frames in a millisecond that were behind another one of their ring are a stream. */
enum { SILO_STREAM = 250 };

/* Counts the rings that have work within a millisecond. It is crowded while their producers and
 * append are more than the `cores` on which they run. And it streams while producers send many
 * frames without waiting for the answer to each. */
typedef struct {
    uint64_t number;
    int64_t end;
    int cores, busy, crowded, behind, streams;
} silo_census;

/* Counts a ring that has its turn. */
static inline void silo_count_ring(silo_census *census, silo_ring *ring) {
    census->busy += ring->counted != census->number + 1;
    ring->counted = census->number + 1;
    census->behind--; /* its first frame is behind no other */
}

/* Begins the next census at `now`. Returns whether `crowded` has changed. */
static inline int silo_end_census(silo_census *census, int64_t now) {
    int crowded = census->busy >= census->cores, changed = crowded != census->crowded;
    census->crowded = crowded;
    census->streams = census->behind >= SILO_STREAM;
    census->busy = census->behind = 0;
    census->number++;
    census->end = now + 1000000;
    return changed;
}

static inline int silo_has_work(const silo_ring *ring) {
    return silo_load(ring->base + RING_HEAD) != ring->tail;
}

/* Whether a ring has work. */
static inline int silo_any_work(const silo_rings *rings) {
    int i;
    for (i = 0; i < rings->count; i++)
        if (silo_has_work(rings->used[i]))
            return 1;
    return 0;
}

/* Finds the rings with work and orders their turns. Returns their number. Another ring is looked
 * at first each time. */
static inline int silo_find_turns(silo_rings *rings, uint64_t clock, uint64_t share) {
    int i, k, count = 0;
    rings->first = rings->first + 1 < rings->count ? rings->first + 1 : 0;
    for (k = 0; k < rings->count; k++) {
        i = rings->first + k;
        i -= i < rings->count ? 0 : rings->count;
        if (silo_has_work(rings->used[i]))
            rings->turns[count++].ring = rings->used[i];
    }
    if (count)
        silo_order_turns(clock, share, rings->turns, count);
    return count;
}

/* Ends the turn `at`, in which `bytes` were taken. With `more` the ring gets another turn, in
 * order. Returns the place of the next turn, which is `count` when there is none. */
static inline int silo_end_turn(silo_turn *turns, int count, int at, uint64_t bytes, int more) {
    silo_turn turn = turns[at];
    int to = at;
    turn.ring->flow.end = turn.begin + bytes * turn.weight;
    turn.ring->flow.backlog = more;
    if (!more)
        return at + 1;
    turn.due = turn.begin = turn.ring->flow.end;
    turn.backlog = 1;
    for (; to + 1 < count && silo_compare_turns(&turns[to + 1], &turn) < 0; to++)
        turns[to] = turns[to + 1];
    turns[to] = turn;
    return at;
}

#endif
