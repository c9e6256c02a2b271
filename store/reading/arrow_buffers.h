/* Columns in Arrow's layout: growing buffers for the parts of a column, and the functions that add
 * numbers and text to them. */
#ifndef SILO_ARROW_BUFFERS_H
#define SILO_ARROW_BUFFERS_H

#include <string.h>

#include "store/reading/blocks.h"
#include "store/record/properties.h"

typedef struct {
    uint8_t *data;
    size_t used, room;
} silo_buffer;

/* A column's parts. `data` holds numbers, or the bytes of text. `ends` holds int32 offsets, 0
 * first: where each row's text ends in `data`, or where each row's list ends among the elements,
 * which are a column of their own. `valid` holds a byte for each row, 0 for a null, if the column
 * may have nulls. */
typedef struct {
    silo_buffer data, ends, valid;
} silo_column;

/* Gives a buffer room for `more` bytes, at least half as much again as it had. Returns 0 without
 * memory, as do the functions below that add something. */
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

/* Most text is short: a call of memcpy takes longer than the copy. The two words may overlap. */
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

/* Returns the length of the longest start of a UTF-8 sequence at `p`, at least 1. *whole says
 * whether the sequence is complete. */
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

/* Most text is ASCII. The last eight bytes are tested together, though some were tested before. */
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

/* In text that is not UTF-8, U+FFFD replaces each sequence that breaks off, as in Python's and
 * Java's decoders. */
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

/* Says whether row number `row` is a null. The column has `valid` from its first null on, then for
 * all rows. */
static inline int silo_add_validity(silo_column *to, int64_t row, int64_t *nulls, int is_valid) {
    if (__builtin_expect(is_valid && !*nulls, 1)) return 1;
    size_t rows = (size_t)row + 1, more = rows - to->valid.used;
    if (!silo_reserve(&to->valid, more)) return 0;
    memset(to->valid.data + to->valid.used, 1, more);
    to->valid.used = rows;
    to->valid.data[row] = is_valid != 0;
    *nulls += !is_valid;
    return 1;
}

/* Adds bytes, or a null if `p` is NULL, as row number `row`. */
static inline int silo_add_nullable(silo_column *to, int64_t row, int64_t *nulls, const uint8_t *p,
                                    uint32_t length) {
    if (!silo_add_validity(to, row, nulls, p != NULL)) return 0;
    if (p) return silo_add_bytes(to, p, length);
    return silo_add32(&to->ends, (uint32_t)to->data.used);
}

#endif
