/* Finds what must be known of a message that comes from the network: its properties, and the
 * messages in the body of a batch. What needs a decision gives 0; send.py takes that. */
#ifndef SILO_MESSAGES_H
#define SILO_MESSAGES_H

#include <stdint.h>
#include <string.h>

#include "shm/words.h"

enum {
    MESSAGE_KEY = 64,    /* a longer UNIQ_KEY is unusual */
    MEMBER_BODY_AT = 20, /* in a batch; before it: total, magic, CRC, flag, the body's length */
};

typedef struct {
    const uint8_t *body;
    const uint8_t *properties; /* pairs, each with its end */
    uint32_t body_length, properties_length;
    uint32_t total; /* of its record */
    int32_t flag;
    const uint8_t *key; /* the value of UNIQ_KEY, NULL if there is none */
    uint32_t key_length;
    uint32_t no_wait; /* WAIT is false */
} silo_message;

/* Whether a text needs no escapes in JSON. */
static inline int silo_is_plain(const uint8_t *p, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (p[i] <= 0x20 || p[i] >= 0x7F || p[i] == '"' || p[i] == '\\') return 0;
    return 1;
}

static inline int silo_is_ascii(const uint8_t *p, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (p[i] >= 0x80) return 0;
    return 1;
}

/* Looks through a message's properties. 0 for one that needs a decision: a delay, a transaction,
 * light queues, or one that the broker sets itself; and for pairs that are not whole. */
static inline int silo_look_through(silo_message *m) {
    const uint8_t *p = m->properties, *end = p + m->properties_length;
    while (p < end) {
        const uint8_t *stop = memchr(p, 2, (size_t)(end - p));
        const uint8_t *mid = stop ? memchr(p, 1, (size_t)(stop - p)) : NULL;
        if (!mid || mid == p || mid + 1 == stop) return 0;
        size_t name = (size_t)(mid - p), value = (size_t)(stop - mid - 1);
        if (*p == 'U') {
            if (name == 8 && memcmp(p, "UNIQ_KEY", 8) == 0) {
                if (value > MESSAGE_KEY || !silo_is_plain(mid + 1, value)) return 0;
                m->key = mid + 1;
                m->key_length = (uint32_t)value;
            }
        } else if (*p == 'W') {
            if (name == 4 && memcmp(p, "WAIT", 4) == 0)
                m->no_wait = value == 5 && memcmp(mid + 1, "false", 5) == 0;
        } else if (*p == 'T') {
            if (name != 4 || memcmp(p, "TAGS", 4) != 0) return 0;
        } else if (memchr("DIPCMR_", *p, 7)) {
            return 0;
        }
        p = stop + 1;
    }
    return 1;
}

/* Finds the messages in the body of a batch, at most `most`. Returns their number, 0 for a body
 * that is wrong or unusual. */
static inline uint32_t silo_members(const uint8_t *p, uint32_t length, silo_message *out,
                                    uint32_t most) {
    uint32_t count = 0, at = 0;
    while (at < length) {
        uint32_t left = length - at;
        if (count == most || left < MEMBER_BODY_AT + 2) return 0;
        silo_message *m = &out[count++];
        memset(m, 0, sizeof *m);
        m->body = p + at + MEMBER_BODY_AT;
        m->body_length = silo_be32(p + at + MEMBER_BODY_AT - 4);
        m->flag = (int32_t)silo_be32(p + at + MEMBER_BODY_AT - 8);
        if (m->body_length > left - MEMBER_BODY_AT - 2) return 0;
        m->properties = m->body + m->body_length + 2;
        m->properties_length = silo_be16(m->properties - 2);
        uint32_t size = MEMBER_BODY_AT + m->body_length + 2;
        if (m->properties_length > left - size) return 0;
        size += m->properties_length;
        if (silo_be32(p + at) != size) return 0;
        if (m->properties_length && m->properties[m->properties_length - 1] != 2) return 0;
        if (!silo_is_ascii(m->properties, m->properties_length) || !silo_look_through(m)) return 0;
        at += size;
    }
    return count;
}

#endif
