# The header of a request taken apart (header.h), and the header of an answer as it is written
# (answer.h).

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

# The codes of the requests that kernels serve (codes.py).
cdef enum:
    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    LITE_PULL_MESSAGE = 361

cdef extern from "broker/wire/header.h" nogil:
    enum: HEADER_FIELDS
    ctypedef struct silo_value:
        const uint8_t *at
        uint32_t length, escaped
    ctypedef struct silo_header:
        int32_t code, flag, opaque
        uint32_t form, body_length, count
        const uint8_t *body
        silo_value names[40]        # HEADER_FIELDS of each
        silo_value values[40]
    bint silo_parse_header(const uint8_t *frame, uint32_t length, silo_header *h)
    const silo_value *silo_field(const silo_header *h, const char *name)
    bint silo_number(const silo_value *v, int64_t *out)
    bint silo_number32(const silo_value *v, int32_t *out)
    bint silo_is(const silo_value *v, const char *text)
    int64_t silo_unescape(const silo_value *v, uint8_t *out)

cdef extern from "broker/wire/answer.h" nogil:
    int ANSWER_ROOM, FIELD_ROOM
    ctypedef struct silo_answer:
        uint8_t *p
    void silo_begin_answer(silo_answer *a, uint8_t *out, uint32_t form, int32_t code,
                           int32_t opaque, const char *remark)
    void silo_begin_field(silo_answer *a, const char *name)
    void silo_end_field(silo_answer *a)
    void silo_text_field(silo_answer *a, const char *name, const void *text, size_t length)
    void silo_number_field(silo_answer *a, const char *name, int64_t value)
    uint8_t *silo_end_answer(silo_answer *a, uint32_t body)
