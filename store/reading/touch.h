/* Loads records into the CPU's caches, before their fields are looked at in other orders: each of
 * those accesses would wait for its line. Loads of many records at once wait together. */
#ifndef SILO_TOUCH_H
#define SILO_TOUCH_H

#include "store/record/record.h"

enum {
    TOUCH_LINE = 64,
    TOUCH_HEAD = RECORD_BODY + 4, /* with the first bytes of the body, which a view repeats */
    TOUCH_LENGTHS = 32,           /* behind a body: most topics and both lengths */
    TOUCH_TEXTS = 256,            /* behind a body: most topics and properties */
    TOUCH_SHORT = 384,            /* a record up to this size is loaded whole, */
    TOUCH_SHORT_BODY = 4096,      /* and one up to this size if its body is copied */
};

/* Whether the whole of a record is loaded: its lines in ascending order come fast. If bodies are
 * not copied, the fewer lines of head and texts come faster, unless the record is short. */
static inline int silo_touches_all(int64_t size, int bodies) {
    return size <= (bodies ? TOUCH_SHORT_BODY : TOUCH_SHORT);
}

/* Loads lines in ascending order. There must be at least a byte. */
static inline void silo_load_lines(const uint8_t *from, const uint8_t *to) {
    const volatile uint8_t *p = from, *end = to;
    for (; p < end; p += TOUCH_LINE) (void)*p;
    (void)end[-1];
}

/* Loads a record; of a long one only the head, as far as the first bytes of the body. */
static inline void silo_touch_head(const uint8_t *record, int64_t size, int bodies) {
    silo_load_lines(record, record + (silo_touches_all(size, bodies) ? size : TOUCH_HEAD));
}

/* Loads what lies behind the body of a long record, whose head is loaded: the lengths of topic and
 * properties, and with `texts` both. The record may have any bytes. */
static inline void silo_touch_texts(const uint8_t *record, int64_t size, int bodies, int texts) {
    uint32_t flags, hosts;
    int64_t at, end;
    if (silo_touches_all(size, bodies)) return;
    flags = silo_be32(record + RECORD_SYS_FLAG);
    hosts = silo_host_size(flags & FLAG_BORN_V6) + silo_host_size(flags & FLAG_STORE_V6);
    at = RECORD_BODY + hosts - 2 * HOST_SIZE;
    at += silo_be32(record + at - 4);
    end = at + (texts ? TOUCH_TEXTS : TOUCH_LENGTHS);
    if (end > size) end = size;
    if (at < end) silo_load_lines(record + at, record + end);
}

/* Loads `count` records, which lie at the log offsets `at`. `memory` has those from `base` on. */
static inline void silo_touch(const uint8_t *memory, int64_t base, const int64_t *at,
                              const int64_t *size, int count, int bodies, int texts) {
    int i;
    for (i = 0; i < count; i++) silo_touch_head(memory + (at[i] - base), size[i], bodies);
    for (i = 0; i < count; i++) silo_touch_texts(memory + (at[i] - base), size[i], bodies, texts);
}

#endif
