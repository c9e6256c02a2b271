/* Columns of Arrow's layout: one growing buffer for each part of each column. Bodies are copied one
 * by one, as they lie in memory; the other columns are filled a block of records at a time, column
 * by column: in such short loops the CPU is at work on several records at once. Text that is not
 * UTF-8 gets U+FFFD, as Python's and Java's decoders put it: one for each sequence that breaks
 * off. */
#ifndef SILO_COLUMNS_H
#define SILO_COLUMNS_H

#include <arpa/inet.h>

#include "store/reading/blocks.h"
#include "store/record/checksum.h"
#include "store/record/properties.h"
#include "store/record/record.h"

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

/* The last host of a column, and how it is written: the next one is mostly the same. */
typedef struct {
    uint8_t bytes[HOST_V6_SIZE];
    char text[72];
    uint32_t size, length;
} silo_host;

enum { COLUMN_BLOCK = 128 };

typedef struct {
    uint32_t wanted;
    int64_t rows, bytes, nulls[COLUMN_COUNT];
    silo_column column[COLUMN_COUNT], key, name, value;
    silo_text *values;             /* of one record's properties, room for as many as can be */
    silo_host born, host;
    uint32_t waiting;              /* records, counted in `rows`, that are in no column yet */
    silo_record block[COLUMN_BLOCK];
    silo_properties found[COLUMN_BLOCK];
} silo_columns;

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

/* Most text is short: calling memcpy takes longer than copying it. Two words may overlap. */
static inline void silo_copy(uint8_t *to, const uint8_t *p, size_t length) {
    if (length > 32 || length < 4) {
        if (length < 4)
            for (size_t i = 0; i < length; i++) to[i] = p[i];
        else
            memcpy(to, p, length);
    } else if (length < 8) {
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + length - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + length - 4, &last, 4);
    } else if (length <= 16) {
        uint64_t first, last;
        memcpy(&first, p, 8);
        memcpy(&last, p + length - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + length - 8, &last, 8);
    } else {
        uint8_t first[16], last[16];
        memcpy(first, p, 16);
        memcpy(last, p + length - 16, 16);
        memcpy(to, first, 16);
        memcpy(to + length - 16, last, 16);
    }
}

static inline int silo_add_bytes(silo_column *c, const uint8_t *p, size_t length) {
    if (!silo_reserve(&c->data, length)) return 0;
    silo_copy(c->data.data + c->data.used, p, length);
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

/* A host as ADDRESS:PORT or [IPV6]:PORT. */
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

/* Room for a number of `width` bytes of each record of the block; NULL: no memory. */
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

/* The block's records become rows of the other columns. 0: no memory; the columns cannot be used
 * any more then. */
static inline int silo_fill(silo_columns *c) {
    if (c->waiting == 0) return 1;
    int ok = silo_fill_numbers(c) && silo_fill_texts(c) && silo_fill_properties(c);
    c->waiting = 0;
    return ok;
}

/* A whole record becomes a row; its bytes stay where they are until `silo_fill`. 0: no memory. */
static inline int silo_add(silo_columns *c, const silo_record *m) {
    if (WANTS(c, COL_BODY) &&
        !silo_add_bytes(&c->column[COL_BODY], m->bytes + m->body_at, m->body_length))
        return 0;
    c->block[c->waiting++] = *m;
    c->rows++;
    c->bytes += m->total;
    return c->waiting < COLUMN_BLOCK || silo_fill(c);
}

#endif
