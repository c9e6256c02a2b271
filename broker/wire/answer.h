/* Writes an answer up to its body, in both forms (broker/wire/command.py owns them), for the
 * kernels that answer the most frequent requests. The caller has the room, and texts that need no
 * escapes in JSON. */
#ifndef SILO_ANSWER_H
#define SILO_ANSWER_H

#include <stdint.h>
#include <string.h>

#include "broker/wire/header.h"
#include "shm/words.h"

enum {
    ANSWER_PREFIX = 8,    /* bytes of a frame before its header */
    ANSWER_ROOM = 256,    /* for all but fields and remark, in each form */
    FIELD_ROOM = 32,      /* for all of a field but name and value; and for a number's digits */
    ANSWER_FLAG = 1,      /* this is an answer */
    ANSWER_VERSION = 479, /* codes.OUR_VERSION */
};

typedef struct {
    uint8_t *start, *p, *field, *fields;
    const char *remark;
    uint32_t form, count;
    int32_t opaque;
} silo_answer;

static inline void silo_put_text(silo_answer *a, const void *text, size_t length) {
    memcpy(a->p, text, length);
    a->p += length;
}

static inline void silo_put_string(silo_answer *a, const char *text) {
    silo_put_text(a, text, strlen(text));
}

static inline void silo_put_decimal(silo_answer *a, int64_t value) {
    uint8_t digits[20], *d = digits + sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--d = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (value < 0) *a->p++ = '-';
    silo_put_text(a, d, (size_t)(digits + sizeof digits - d));
}

/* Begins an answer at `out`, to the request `opaque`. The remark is "" for none. */
static inline void silo_begin_answer(silo_answer *a, uint8_t *out, uint32_t form, int32_t code,
                                     int32_t opaque, const char *remark) {
    a->start = out;
    a->p = out + ANSWER_PREFIX;
    a->remark = remark;
    a->form = form;
    a->count = 0;
    a->opaque = opaque;
    if (form == FORM_JSON) {
        silo_put_string(a, "{\"code\":");
        silo_put_decimal(a, code);
        return;
    }
    silo_put16(a->p, (uint32_t)code);
    a->p[2] = 0; /* JAVA */
    silo_put16(a->p + 3, ANSWER_VERSION);
    silo_put32(a->p + 5, (uint32_t)opaque);
    silo_put32(a->p + 9, ANSWER_FLAG);
    silo_put32(a->p + HEADER_FIXED, (uint32_t)strlen(remark));
    a->p += HEADER_FIXED + 4;
    silo_put_string(a, remark);
    a->p += 4;
    a->fields = a->p;
}

/* Begins a field: its value is to be put behind it, and `silo_end_field` called then. */
static inline void silo_begin_field(silo_answer *a, const char *name) {
    if (a->form == FORM_JSON) {
        silo_put_string(a, a->count++ ? ",\"" : ",\"extFields\":{\"");
        silo_put_string(a, name);
        silo_put_string(a, "\":\"");
        return;
    }
    silo_put16(a->p, (uint32_t)strlen(name));
    a->p += 2;
    silo_put_string(a, name);
    a->p += 4;
    a->field = a->p;
}

static inline void silo_end_field(silo_answer *a) {
    if (a->form == FORM_JSON)
        *a->p++ = '"';
    else
        silo_put32(a->field - 4, (uint32_t)(a->p - a->field));
}

static inline void silo_text_field(silo_answer *a, const char *name, const void *text,
                                   size_t length) {
    silo_begin_field(a, name);
    silo_put_text(a, text, length);
    silo_end_field(a);
}

static inline void silo_number_field(silo_answer *a, const char *name, int64_t value) {
    silo_begin_field(a, name);
    silo_put_decimal(a, value);
    silo_end_field(a);
}

/* Ends an answer whose body has so many bytes. Returns where the body begins. */
static inline uint8_t *silo_end_answer(silo_answer *a, uint32_t body) {
    if (a->form == FORM_JSON) {
        silo_put_string(a, a->count ? "},\"flag\":1,\"language\":\"JAVA\",\"opaque\":"
                                    : ",\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
        silo_put_decimal(a, a->opaque);
        if (a->remark[0]) {
            silo_put_string(a, ",\"remark\":\"");
            silo_put_string(a, a->remark);
            *a->p++ = '"';
        }
        silo_put_string(a, ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        silo_put_decimal(a, ANSWER_VERSION);
        *a->p++ = '}';
    } else {
        silo_put32(a->fields - 4, (uint32_t)(a->p - a->fields));
    }
    uint32_t header = (uint32_t)(a->p - a->start - ANSWER_PREFIX);
    silo_put32(a->start, 4 + header + body);
    silo_put32(a->start + 4, a->form << 24 | header);
    return a->p;
}

#endif
