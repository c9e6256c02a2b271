/* Columns of Arrow's layout, filled record by record: one growing buffer for each part of each
 * column. Text that is not UTF-8 gets U+FFFD, as Python's and Java's decoders put it: one for each
 * sequence that breaks off. */
#ifndef SILO_COLUMNS_H
#define SILO_COLUMNS_H

#include <arpa/inet.h>

#include "store/blocks.h"
#include "store/checksum.h"
#include "store/properties.h"
#include "store/record.h"

/* The columns, as bits of what is wanted and as places in `column`. */
enum {
    COL_TOPIC, COL_QUEUE_ID, COL_QUEUE_OFFSET, COL_PHYSICAL_OFFSET, COL_STORE_TIMESTAMP,
    COL_BORN_TIMESTAMP, COL_TAGS, COL_KEYS, COL_PROPERTIES, COL_BODY, COL_SIZE, COL_SYS_FLAG,
    COL_FLAG, COL_BODY_CRC, COL_RECONSUME_TIMES, COL_BORN_HOST, COL_STORE_HOST, COL_MESSAGE_ID,
    COLUMN_COUNT
};
#define WANTS(c, what) ((c)->wanted >> (what) & 1)

typedef struct {
    uint8_t *data;
    size_t used, room;
} silo_buffer;

/* Numbers are in `data`. Of text, `ends` holds the int32 offsets and `data` the bytes; `valid` a
 * byte a row. Lists have a row's end in `ends` and their elements in a text of their own. */
typedef struct {
    silo_buffer data, ends, valid;
} silo_column;

typedef struct {
    uint32_t wanted;
    int64_t rows, bytes, nulls[COLUMN_COUNT];
    silo_column column[COLUMN_COUNT], key, name, value;
    silo_text *values;             /* of one record's properties, room for as many as can be */
    uint8_t born[20], host[20];    /* the last hosts, and how they are written */
    uint32_t born_size, host_size, born_length, host_length;
    char born_text[72], host_text[72];
} silo_columns;

/* What silo_add says beside RECORD_*: no memory. */
enum { COLUMNS_NO_MEMORY = 16 };
enum { MOST_PAIRS = 32767 / 4 + 1 };

static inline int silo_grow(silo_buffer *b, size_t more) {
    size_t room = b->room + b->room / 2 + 256;
    if (room < b->used + more) room = b->used + more;
    uint8_t *data = silo_block_take(&room);
    if (!data) return 0;
    if (b->used) memcpy(data, b->data, b->used);
    silo_block_give(b->data, b->room);
    b->data = data;
    b->room = room;
    return 1;
}

static inline int silo_reserve(silo_buffer *b, size_t more) {
    return __builtin_expect(more <= b->room - b->used, 1) || silo_grow(b, more);
}

static inline int silo_add32(silo_buffer *b, uint32_t v) {
    if (!silo_reserve(b, 4)) return 0;
    memcpy(b->data + b->used, &v, 4);
    b->used += 4;
    return 1;
}

static inline int silo_add64(silo_buffer *b, uint64_t v) {
    if (!silo_reserve(b, 8)) return 0;
    memcpy(b->data + b->used, &v, 8);
    b->used += 8;
    return 1;
}

static inline int silo_add_bytes(silo_column *c, const void *p, size_t length) {
    if (!silo_reserve(&c->data, length)) return 0;
    memcpy(c->data.data + c->data.used, p, length);
    c->data.used += length;
    return silo_add32(&c->ends, (uint32_t)c->data.used);
}

/* How many bytes of a sequence at `p` are good, and in *whole whether it is complete. */
static inline uint32_t silo_utf8_span(const uint8_t *p, const uint8_t *end, int *whole) {
    uint8_t c = p[0], low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    uint8_t high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    uint32_t need = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    uint32_t have = 1;
    while (have < need && p + have < end && p[have] >= low && p[have] <= high) {
        have++;
        low = 0x80;
        high = 0xBF;
    }
    *whole = have == need;
    return have;
}

/* Most text is ASCII; the last eight bytes are looked at together, some of them again. */
static inline int silo_is_ascii(const uint8_t *p, uint32_t length) {
    uint64_t w, all = 0;
    uint32_t i = 0;
    if (length < 8) {
        for (; i < length; i++) all |= p[i];
        return !(all & 0x80);
    }
    for (; i + 8 <= length; i += 8) {
        memcpy(&w, p + i, 8);
        all |= w;
    }
    memcpy(&w, p + length - 8, 8);
    return !((all | w) & 0x8080808080808080u);
}

static inline int silo_add_text(silo_column *c, const uint8_t *p, uint32_t length) {
    if (silo_is_ascii(p, length) || silo_is_utf8(p, length)) return silo_add_bytes(c, p, length);
    const uint8_t *end = p + length;
    if (!silo_reserve(&c->data, (size_t)length * 3)) return 0;
    while (p < end) {
        int whole;
        uint32_t span = silo_utf8_span(p, end, &whole);
        memcpy(c->data.data + c->data.used, whole ? p : (const uint8_t *)"\xEF\xBF\xBD",
               whole ? span : 3);
        c->data.used += whole ? span : 3;
        p += span;
    }
    return silo_add32(&c->ends, (uint32_t)c->data.used);
}

/* Text that may be missing. */
static inline int silo_add_optional(silo_columns *c, int what, silo_text text) {
    silo_column *to = &c->column[what];
    if (!silo_reserve(&to->valid, 1)) return 0;
    to->valid.data[to->valid.used++] = text.at != NULL;
    if (text.at) return silo_add_text(to, text.at, text.length);
    c->nulls[what]++;
    return silo_add32(&to->ends, (uint32_t)to->data.used);
}

/* Keys are split at spaces; empty ones are none. */
static inline int silo_add_keys(silo_columns *c, silo_text text) {
    const uint8_t *p = text.at, *end = p + text.length;
    while (p < end) {
        const uint8_t *stop = memchr(p, ' ', (size_t)(end - p));
        if (!stop) stop = end;
        if (stop > p && !silo_add_text(&c->key, p, (uint32_t)(stop - p))) return 0;
        p = stop + 1;
    }
    return silo_add32(&c->column[COL_KEYS].ends, (uint32_t)(c->key.ends.used / 4 - 1));
}

/* Where among the names from number `first` on the last one stands already; -1: it is new. */
static inline int64_t silo_same_name(const silo_column *name, size_t first) {
    const uint32_t *ends = (const uint32_t *)name->ends.data;
    size_t last = name->ends.used / 4 - 2;
    uint32_t length = ends[last + 1] - ends[last];
    for (size_t i = first; i < last; i++)
        if (ends[i + 1] - ends[i] == length &&
            memcmp(name->data.data + ends[i], name->data.data + ends[last], length) == 0)
            return (int64_t)(i - first);
    return -1;
}

/* All pairs by RocketMQ's rules, as silo_find_properties; of a name that occurs twice the last
 * value counts. Those that have columns of their own are found on the way. */
static inline int silo_add_pairs(silo_columns *c, const uint8_t *p, uint32_t length,
                                 silo_properties *out) {
    const uint8_t *end = p + length;
    size_t first = c->name.ends.used / 4 - 1, count = 0;
    while (p < end) {
        const uint8_t *stop = memchr(p, 2, (size_t)(end - p));
        if (!stop) stop = end;
        const uint8_t *mid = memchr(p, 1, (size_t)(stop - p));
        if (mid && mid != p && mid + 1 != stop) {
            silo_text value = {mid + 1, (uint32_t)(stop - mid - 1)};
            size_t before = c->name.data.used;
            if (!silo_add_text(&c->name, p, (uint32_t)(mid - p))) return 0;
            if (mid - p == 4 && memcmp(p, "TAGS", 4) == 0) out->tags = value;
            else if (mid - p == 4 && memcmp(p, "KEYS", 4) == 0) out->keys = value;
            else if (mid - p == 8 && memcmp(p, "UNIQ_KEY", 8) == 0) out->unique_key = value;
            int64_t same = silo_same_name(&c->name, first);
            if (same >= 0) {
                c->name.data.used = before;
                c->name.ends.used -= 4;
                c->values[same] = value;
            } else {
                c->values[count++] = value;
            }
        }
        p = stop + 1;
    }
    for (size_t i = 0; i < count; i++)
        if (!silo_add_text(&c->value, c->values[i].at, c->values[i].length)) return 0;
    return silo_add32(&c->column[COL_PROPERTIES].ends, (uint32_t)(first + count));
}

/* A host as ADDRESS:PORT or [IPV6]:PORT; the one before is mostly the same. */
static inline int silo_add_host(silo_column *to, const uint8_t *p, uint32_t size, uint8_t *last,
                                uint32_t *last_size, char *text, uint32_t *length) {
    if (size != *last_size || memcmp(p, last, size) != 0) {
        char address[INET6_ADDRSTRLEN];
        inet_ntop(size == 20 ? AF_INET6 : AF_INET, p, address, sizeof address);
        *length = (uint32_t)snprintf(text, 72, size == 20 ? "[%s]:%u" : "%s:%u", address,
                                     silo_be32(p + size - 4));
        memcpy(last, p, size);
        *last_size = size;
    }
    return silo_add_bytes(to, text, *length);
}

static inline int silo_add_numbers(silo_columns *c, const silo_record *m) {
    static const struct { uint8_t column, at; } words[] = {
        {COL_SIZE, 0}, {COL_BODY_CRC, RECORD_BODY_CRC}, {COL_QUEUE_ID, RECORD_QUEUE_ID},
        {COL_FLAG, 16}, {COL_SYS_FLAG, RECORD_SYS_FLAG},
    }, longs[] = {
        {COL_QUEUE_OFFSET, RECORD_QUEUE_OFFSET}, {COL_PHYSICAL_OFFSET, RECORD_PHYSICAL_OFFSET},
        {COL_BORN_TIMESTAMP, 40},
    };
    const uint8_t *r = m->bytes;
    int ok = 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (WANTS(c, words[i].column))
            ok &= silo_add32(&c->column[words[i].column].data, silo_be32(r + words[i].at));
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        if (WANTS(c, longs[i].column))
            ok &= silo_add64(&c->column[longs[i].column].data, silo_be64(r + longs[i].at));
    if (WANTS(c, COL_STORE_TIMESTAMP))
        ok &= silo_add64(&c->column[COL_STORE_TIMESTAMP].data, silo_be64(r + m->time_at));
    if (WANTS(c, COL_RECONSUME_TIMES))
        ok &= silo_add32(&c->column[COL_RECONSUME_TIMES].data, silo_be32(r + m->body_at - 16));
    return ok;
}

/* A whole record becomes a row. 0: no memory; the columns cannot be used any more then. */
static inline int silo_add(silo_columns *c, const silo_record *m) {
    const uint8_t *r = m->bytes, *p = r + m->properties_at;
    int ok = silo_add_numbers(c, m);
    if (WANTS(c, COL_TOPIC)) ok &= silo_add_text(&c->column[COL_TOPIC], r + m->topic_at,
                                                 m->topic_length);
    if (WANTS(c, COL_BODY)) ok &= silo_add_bytes(&c->column[COL_BODY], r + m->body_at,
                                                 m->body_length);
    silo_properties found = {{0}};
    if (WANTS(c, COL_PROPERTIES))
        ok &= silo_add_pairs(c, p, m->properties_length, &found);
    else if (WANTS(c, COL_TAGS) || WANTS(c, COL_KEYS) || WANTS(c, COL_MESSAGE_ID))
        silo_find_properties(p, m->properties_length, &found);
    if (WANTS(c, COL_TAGS)) ok &= silo_add_optional(c, COL_TAGS, found.tags);
    if (WANTS(c, COL_KEYS)) ok &= silo_add_keys(c, found.keys);
    if (WANTS(c, COL_MESSAGE_ID)) ok &= silo_add_optional(c, COL_MESSAGE_ID, found.unique_key);
    if (WANTS(c, COL_BORN_HOST))
        ok &= silo_add_host(&c->column[COL_BORN_HOST], r + RECORD_BORN_HOST,
                            m->flags & FLAG_BORN_V6 ? 20 : 8, c->born, &c->born_size,
                            c->born_text, &c->born_length);
    if (WANTS(c, COL_STORE_HOST))
        ok &= silo_add_host(&c->column[COL_STORE_HOST], r + m->time_at + 8,
                            m->flags & FLAG_STORE_V6 ? 20 : 8, c->host, &c->host_size,
                            c->host_text, &c->host_length);
    c->rows++;
    c->bytes += m->total;
    return ok;
}

#endif
