/* Fills columns from records. Bodies are copied or pointed at one by one, as they lie in memory.
 * The other columns are filled a block of records at a time, column by column: in such short loops
 * the CPU works on several records at once. */
#ifndef SILO_COLUMNS_H
#define SILO_COLUMNS_H

#include <arpa/inet.h>

#include "store/reading/arrow_buffers.h"
#include "store/reading/body_views.h"
#include "store/record/properties.h"
#include "store/record/record.h"

/* The numbers of the columns: bits in `wanted`, places in `column`. */
enum {
    COL_TOPIC, COL_QUEUE_ID, COL_QUEUE_OFFSET, COL_PHYSICAL_OFFSET, COL_STORE_TIMESTAMP,
    COL_BORN_TIMESTAMP, COL_TAGS, COL_KEYS, COL_PROPERTIES, COL_BODY, COL_SIZE, COL_SYS_FLAG,
    COL_FLAG, COL_BODY_CRC, COL_RECONSUME_TIMES, COL_BORN_HOST, COL_STORE_HOST, COL_MESSAGE_ID,
    COLUMN_COUNT
};
/* Those that are made of topic and properties. */
enum { TEXT_COLUMNS = 1 << COL_TOPIC | 1 << COL_TAGS | 1 << COL_KEYS | 1 << COL_PROPERTIES |
                      1 << COL_MESSAGE_ID };
#define WANTS(c, what) ((c)->wanted >> (what) & 1)

/* The last host of a column and its text, which is used again if the next host is the same. */
typedef struct {
    uint8_t bytes[HOST_V6_SIZE];
    char text[72];
    uint32_t size, length;
} silo_host;

enum { COLUMN_BLOCK = 128 };

typedef struct {
    uint32_t wanted;
    int64_t rows, bytes, nulls[COLUMN_COUNT];
    int64_t more;                  /* bytes by which decompressed bodies are longer than stored */
    silo_column column[COLUMN_COUNT], key, name, value;
    silo_text *values;             /* of one record's properties: room for MOST_PAIRS */
    silo_host born, host;
    silo_views views;              /* of bodies; then the body column has no `ends` */
    uint32_t waiting;              /* records, counted in `rows`, that are in no column yet */
    silo_record block[COLUMN_BLOCK];
    silo_properties found[COLUMN_BLOCK];
} silo_columns;

enum { MOST_PAIRS = 32767 / 4 + 1 };

/* Adds text that may be missing. */
static inline int silo_add_optional(silo_columns *c, int what, silo_text text) {
    silo_column *to = &c->column[what];
    if (!silo_reserve(&to->valid, 1)) return 0;
    to->valid.data[to->valid.used++] = text.at != NULL;
    if (text.at) return silo_add_text(to, text.at, text.length);
    c->nulls[what]++;
    return silo_add32(&to->ends, (uint32_t)to->data.used);
}

/* Adds the list of a row's keys: the pieces of `text` between spaces that are not empty. */
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

/* Whether the last name occurs before, among the names from number `first` on: its place there, or
 * -1. */
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

/* Adds all pairs of a row by RocketMQ's rules, as silo_find_properties. If a name occurs twice, the
 * last value counts. Stores in *out the properties that have columns of their own. */
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

/* Adds a host as ADDRESS:PORT or [IPV6]:PORT. */
static inline int silo_add_host(silo_column *to, const uint8_t *p, uint32_t size, silo_host *last) {
    if (size != last->size || memcmp(p, last->bytes, size) != 0) {
        char address[INET6_ADDRSTRLEN];
        inet_ntop(size == HOST_V6_SIZE ? AF_INET6 : AF_INET, p, address, sizeof address);
        last->length = (uint32_t)snprintf(last->text, sizeof last->text,
                                          size == HOST_V6_SIZE ? "[%s]:%u" : "%s:%u", address,
                                          silo_be32(p + size - HOST_PORT_SIZE));
        memcpy(last->bytes, p, size);
        last->size = size;
    }
    return silo_add_bytes(to, (const uint8_t *)last->text, last->length);
}

/* Extends a column by a number of `width` bytes for each record of the block, to be filled in.
 * Returns NULL without memory. */
static inline void *silo_extend(silo_columns *c, int what, size_t width) {
    silo_buffer *b = &c->column[what].data;
    if (!silo_reserve(b, c->waiting * width)) return NULL;
    b->used += c->waiting * width;
    return b->data + b->used - c->waiting * width;
}

static inline int silo_fill_numbers(silo_columns *c) {
    static const struct { uint8_t column, at; } words[] = {
        {COL_SIZE, RECORD_TOTAL_SIZE}, {COL_BODY_CRC, RECORD_BODY_CRC},
        {COL_QUEUE_ID, RECORD_QUEUE_ID}, {COL_FLAG, RECORD_FLAG}, {COL_SYS_FLAG, RECORD_SYS_FLAG},
    }, longs[] = {
        {COL_QUEUE_OFFSET, RECORD_QUEUE_OFFSET}, {COL_PHYSICAL_OFFSET, RECORD_PHYSICAL_OFFSET},
        {COL_BORN_TIMESTAMP, RECORD_BORN_TIMESTAMP},
    };
    const silo_record *m = c->block;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (WANTS(c, words[k].column)) {
            int32_t *to = silo_extend(c, words[k].column, 4);
            if (!to) return 0;
            for (uint32_t i = 0; i < c->waiting; i++)
                to[i] = (int32_t)silo_be32(m[i].bytes + words[k].at);
        }
    for (size_t k = 0; k < sizeof longs / sizeof *longs; k++)
        if (WANTS(c, longs[k].column)) {
            int64_t *to = silo_extend(c, longs[k].column, 8);
            if (!to) return 0;
            for (uint32_t i = 0; i < c->waiting; i++)
                to[i] = (int64_t)silo_be64(m[i].bytes + longs[k].at);
        }
    if (WANTS(c, COL_STORE_TIMESTAMP)) {
        int64_t *to = silo_extend(c, COL_STORE_TIMESTAMP, 8);
        if (!to) return 0;
        for (uint32_t i = 0; i < c->waiting; i++)
            to[i] = (int64_t)silo_be64(m[i].bytes + m[i].time_at);
    }
    if (WANTS(c, COL_RECONSUME_TIMES)) {
        int32_t *to = silo_extend(c, COL_RECONSUME_TIMES, 4);
        if (!to) return 0;
        for (uint32_t i = 0; i < c->waiting; i++)
            to[i] = (int32_t)silo_reconsume_times(&m[i]);
    }
    return 1;
}

static inline int silo_fill_texts(silo_columns *c) {
    const silo_record *m = c->block;
    int ok = 1;
    if (WANTS(c, COL_TOPIC))
        for (uint32_t i = 0; i < c->waiting; i++)
            ok &= silo_add_text(&c->column[COL_TOPIC], m[i].bytes + m[i].topic_at,
                                m[i].topic_length);
    if (WANTS(c, COL_BORN_HOST))
        for (uint32_t i = 0; i < c->waiting; i++)
            ok &= silo_add_host(&c->column[COL_BORN_HOST], m[i].bytes + RECORD_BORN_HOST,
                                silo_host_size(m[i].flags & FLAG_BORN_V6), &c->born);
    if (WANTS(c, COL_STORE_HOST))
        for (uint32_t i = 0; i < c->waiting; i++)
            ok &= silo_add_host(&c->column[COL_STORE_HOST], silo_store_host(&m[i]),
                                silo_host_size(m[i].flags & FLAG_STORE_V6), &c->host);
    return ok;
}

static inline int silo_fill_properties(silo_columns *c) {
    const silo_record *m = c->block;
    silo_properties *found = c->found;
    int ok = 1;
    if (!(WANTS(c, COL_PROPERTIES) || WANTS(c, COL_TAGS) || WANTS(c, COL_KEYS) ||
          WANTS(c, COL_MESSAGE_ID)))
        return 1;
    for (uint32_t i = 0; i < c->waiting; i++) {
        const uint8_t *p = m[i].bytes + m[i].properties_at;
        if (!WANTS(c, COL_PROPERTIES)) {
            silo_find_properties(p, m[i].properties_length, &found[i]);
            continue;
        }
        memset(&found[i], 0, sizeof found[i]);
        ok &= silo_add_pairs(c, p, m[i].properties_length, &found[i]);
    }
    if (WANTS(c, COL_TAGS))
        for (uint32_t i = 0; i < c->waiting; i++)
            ok &= silo_add_optional(c, COL_TAGS, found[i].tags);
    if (WANTS(c, COL_KEYS))
        for (uint32_t i = 0; i < c->waiting; i++) ok &= silo_add_keys(c, found[i].keys);
    if (WANTS(c, COL_MESSAGE_ID))
        for (uint32_t i = 0; i < c->waiting; i++)
            ok &= silo_add_optional(c, COL_MESSAGE_ID, found[i].unique_key);
    return ok;
}

/* Adds the block's records to all columns but the body. Returns 0 without memory; then the columns
 * cannot be used any more. */
static inline int silo_fill(silo_columns *c) {
    if (c->waiting == 0) return 1;
    int ok = silo_fill_numbers(c) && silo_fill_texts(c) && silo_fill_properties(c);
    c->waiting = 0;
    return ok;
}

static inline int silo_add_body(silo_columns *c, const silo_record *m, const uint8_t *body,
                                uint32_t length) {
    silo_column *to = &c->column[COL_BODY];
    if (!c->views.wanted) return silo_add_nullable(to, c->rows, &c->nulls[COL_BODY], body, length);
    return silo_add_validity(to, c->rows, &c->nulls[COL_BODY], body != NULL) &&
           silo_add_view(&c->views, to, body, length, body == m->bytes + m->body_at);
}

/* Adds a whole record as a row, with this body if bodies are wanted. The record's bytes must stay
 * unchanged until silo_fill; those of the body are copied, unless they are only pointed at. Returns
 * 0 without memory. */
static inline int silo_add(silo_columns *c, const silo_record *m, const uint8_t *body,
                           uint32_t length) {
    if (WANTS(c, COL_BODY) && !silo_add_body(c, m, body, length)) return 0;
    c->block[c->waiting++] = *m;
    c->rows++;
    c->bytes += m->total;
    return c->waiting < COLUMN_BLOCK || silo_fill(c);
}

#endif
