/* Takes the header of a request apart, in both of its forms (broker/wire/command.py owns them), for
 * the kernels that serve the most frequent requests. It knows the usual: what is unusual gives 0,
 * and the caller decodes the frame in the general way, which also says what is wrong with it. */
#ifndef SILO_HEADER_H
#define SILO_HEADER_H

#include <stdint.h>
#include <string.h>

#include "shm/words.h"

enum { HEADER_FIELDS = 40, HEADER_FIXED = 13, FORM_JSON = 0, FORM_ROCKETMQ = 1 };

typedef struct {
    const uint8_t *at;
    uint32_t length;
    uint32_t escaped; /* whether it holds JSON's backslashes */
} silo_value;

typedef struct {
    int32_t code, flag, opaque, version;
    uint32_t form, count;
    silo_value names[HEADER_FIELDS], values[HEADER_FIELDS];
    const uint8_t *body;
    uint32_t body_length;
} silo_header;

static inline const uint8_t *silo_skip(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

/* A string's text behind its first quote; NULL for one that does not end, or is not plain ASCII.
 * What is not ASCII must be checked to be UTF-8. */
static inline const uint8_t *silo_string(const uint8_t *p, const uint8_t *end, silo_value *out) {
    out->at = p;
    out->escaped = 0;
    while (p < end && *p != '"') {
        if (*p == '\\') {
            out->escaped = 1;
            p++;
        }
        if (p >= end || *p < 0x20 || *p >= 0x80) return NULL;
        p++;
    }
    if (p >= end) return NULL;
    out->length = (uint32_t)(p - out->at);
    return p + 1;
}

/* A number's or a word's text; NULL for what is neither. */
static inline const uint8_t *silo_bare(const uint8_t *p, const uint8_t *end, silo_value *out) {
    out->at = p;
    out->escaped = 0;
    while (p < end && ((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || *p == '-')) p++;
    out->length = (uint32_t)(p - out->at);
    return out->length ? p : NULL;
}

/* Whether a text is this one. */
static inline int silo_is(const silo_value *v, const char *text) {
    size_t length = strlen(text);
    return v->length == length && memcmp(v->at, text, length) == 0;
}

/* A whole number in decimal digits. 0 if the text is none, or does not fit. */
static inline int silo_number(const silo_value *v, int64_t *out) {
    uint32_t i = v->length && v->at[0] == '-';
    int64_t n = 0;
    if (v->length == i || v->length > 18 + i || v->escaped) return 0;
    int negative = (int)i;
    for (; i < v->length; i++) {
        if (v->at[i] < '0' || v->at[i] > '9') return 0;
        n = n * 10 + (v->at[i] - '0');
    }
    *out = negative ? -n : n;
    return 1;
}

static inline int silo_number32(const silo_value *v, int32_t *out) {
    int64_t n;
    if (!silo_number(v, &n) || n < INT32_MIN || n > INT32_MAX) return 0;
    *out = (int32_t)n;
    return 1;
}

static inline const uint8_t *silo_fields(const uint8_t *p, const uint8_t *end, silo_header *h) {
    p = silo_skip(p, end);
    if (p < end && *p == '}') return p + 1;
    while (p < end) {
        if (h->count == HEADER_FIELDS || *p != '"') return NULL;
        silo_value *name = &h->names[h->count], *value = &h->values[h->count];
        p = silo_string(p + 1, end, name);
        if (!p || name->escaped) return NULL;
        p = silo_skip(p, end);
        if (p >= end || *p != ':') return NULL;
        p = silo_skip(p + 1, end);
        if (p >= end) return NULL;
        p = *p == '"' ? silo_string(p + 1, end, value) : silo_bare(p, end, value);
        if (!p) return NULL;
        if (!silo_is(value, "null") || p[-1] == '"') h->count++;
        p = silo_skip(p, end);
        if (p >= end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
        p = silo_skip(p + 1, end);
    }
    return NULL;
}

static inline int silo_json_header(const uint8_t *p, const uint8_t *end, silo_header *h) {
    silo_value name, value;
    int has_code = 0;
    p = silo_skip(p, end);
    if (p >= end || *p != '{') return 0;
    do {
        p = silo_skip(p + 1, end);
        if (p >= end || *p != '"') return 0;
        p = silo_string(p + 1, end, &name);
        if (!p) return 0;
        p = silo_skip(p, end);
        if (p >= end || *p != ':') return 0;
        p = silo_skip(p + 1, end);
        if (p >= end) return 0;
        if (*p == '{') {
            if (!silo_is(&name, "extFields")) return 0;
            p = silo_fields(p + 1, end, h);
            if (!p) return 0;
        } else {
            int text = *p == '"';
            p = text ? silo_string(p + 1, end, &value) : silo_bare(p, end, &value);
            if (!p) return 0;
            if (silo_is(&name, "code")) {
                has_code = 1;
                if (text || !silo_number32(&value, &h->code)) return 0;
            } else if (silo_is(&name, "flag")) {
                if (text || !silo_number32(&value, &h->flag)) return 0;
            } else if (silo_is(&name, "opaque")) {
                if (text || !silo_number32(&value, &h->opaque)) return 0;
            } else if (silo_is(&name, "version")) {
                if (text || !silo_number32(&value, &h->version)) return 0;
            } else if (!text && !silo_is(&name, "remark") && !silo_is(&name, "extFields")) {
                return 0; /* the language as a number, and what else there may be */
            }
        }
        p = silo_skip(p, end);
    } while (p < end && *p == ',');
    return has_code && p < end && *p == '}' && silo_skip(p + 1, end) == end;
}

static inline int silo_binary_header(const uint8_t *p, const uint8_t *end, silo_header *h) {
    if (end - p < HEADER_FIXED + 8 || p[2] > 13) return 0;
    h->code = (int16_t)silo_be16(p);
    h->version = (int16_t)silo_be16(p + 3);
    h->opaque = (int32_t)silo_be32(p + 5);
    h->flag = (int32_t)silo_be32(p + 9);
    uint32_t remark = silo_be32(p + HEADER_FIXED);
    p += HEADER_FIXED + 4;
    if (remark) return 0; /* requests have none */
    uint32_t length = silo_be32(p);
    p += 4;
    if (length != (uint32_t)(end - p)) return 0;
    while (p < end) {
        if (h->count == HEADER_FIELDS || end - p < 2) return 0;
        silo_value *name = &h->names[h->count], *value = &h->values[h->count];
        name->length = silo_be16(p);
        p += 2;
        if (name->length == 0 || name->length + 4 > (uint32_t)(end - p)) return 0;
        name->at = p;
        p += name->length;
        value->length = silo_be32(p);
        p += 4;
        if (value->length > (uint32_t)(end - p)) return 0;
        value->at = p;
        p += value->length;
        name->escaped = value->escaped = 0;
        for (uint32_t i = 0; i < value->length; i++)
            if (value->at[i] >= 0x80) return 0;
        h->count += value->length > 0;
    }
    return 1;
}

/* Takes apart a frame of `length` bytes without its first word, whose header's length was checked.
 * Returns 0 for one that must be decoded in the general way. */
static inline int silo_parse_header(const uint8_t *frame, uint32_t length, silo_header *h) {
    uint32_t mark = silo_be32(frame), size = mark & 0xFFFFFF;
    h->code = h->flag = h->opaque = h->version = 0;
    h->count = 0;
    h->form = mark >> 24;
    h->body = frame + 4 + size;
    h->body_length = length - 4 - size;
    return h->form == FORM_JSON ? silo_json_header(frame + 4, h->body, h)
                                : silo_binary_header(frame + 4, h->body, h);
}

/* The last field of this name; NULL if there is none. */
static inline const silo_value *silo_field(const silo_header *h, const char *name) {
    for (uint32_t i = h->count; i > 0; i--)
        if (silo_is(&h->names[i - 1], name)) return &h->values[i - 1];
    return NULL;
}

/* Writes a text without JSON's escapes to `out`, which has room for its length. Returns the length,
 * or -1 for an escape that gives no ASCII character. */
static inline int64_t silo_unescape(const silo_value *v, uint8_t *out) {
    const uint8_t *p = v->at, *end = p + v->length;
    uint8_t *q = out;
    if (!v->escaped) {
        memcpy(out, p, v->length);
        return v->length;
    }
    while (p < end) {
        if (*p != '\\') {
            *q++ = *p++;
            continue;
        }
        p++;
        uint32_t c = 0;
        switch (*p++) {
        case 'u':
            if (end - p < 4) return -1;
            for (int i = 0; i < 4; i++, p++) {
                uint32_t d = *p >= '0' && *p <= '9'   ? *p - '0'
                             : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
                             : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10
                                                      : 99;
                if (d > 15) return -1;
                c = c << 4 | d;
            }
            if (c >= 0x80) return -1;
            *q++ = (uint8_t)c;
            break;
        case '"': *q++ = '"'; break;
        case '\\': *q++ = '\\'; break;
        case '/': *q++ = '/'; break;
        case 'b': *q++ = '\b'; break;
        case 'f': *q++ = '\f'; break;
        case 'n': *q++ = '\n'; break;
        case 'r': *q++ = '\r'; break;
        case 't': *q++ = '\t'; break;
        default: return -1;
        }
    }
    return q - out;
}

#endif
