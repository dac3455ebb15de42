/*
 * Each document is a table of its fields; one walk over the table reads all
 * that are there and collects all that is wrong with them.
 */
#include "server/http/parse.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A WORD is shown as it came: it has nothing that JSON escapes. A TIME is text or null,
 * and becomes milliseconds. */
enum kind { INTEGER, TEXT, WORD, TIME };

enum { REQUIRED = 1, REMOVABLE = 2 }; /* by null, in a patch */

/* One row says all about a field: its name, what it takes, where it goes. */
struct field {
    const char *name;
    enum kind kind;
    unsigned flags;
    unsigned given;   /* enum store_given */
    size_t at;        /* in the struct: int64_t, or char[] of a text */
    int64_t min, max; /* of INTEGER; of a text the room */
};

#define AT(member) offsetof(struct store_order, member)
static const struct field order_fields[] = {
    {"product_id", INTEGER, REQUIRED, 0, AT(product_id), 1, STORE_NUMBER_MAX},
    {"user_id", INTEGER, REQUIRED, 0, AT(user_id), 1, STORE_NUMBER_MAX},
    {"quantity", INTEGER, REQUIRED, 0, AT(quantity), 1, PARSE_QUANTITY_MAX},
    {0},
};
#undef AT

#define AT(member) offsetof(struct store_product, member)
static const struct field product_fields[] = {
    {"name", TEXT, REQUIRED, STORE_GIVEN_NAME, AT(name), 0,
     STORE_NAME_BYTES_MAX + 1},
    {"stock", INTEGER, 0, STORE_GIVEN_STOCK, AT(initial), 0, STORE_NUMBER_MAX},
    {"price_cents", INTEGER, REMOVABLE, STORE_GIVEN_PRICE, AT(price_cents), 0,
     PARSE_PRICE_CENTS_MAX},
    {"limit_per_user", INTEGER, REMOVABLE, STORE_GIVEN_LIMIT,
     AT(limit_per_user), 0, STORE_NUMBER_MAX},
    {"pay_within_s", INTEGER, REMOVABLE, STORE_GIVEN_PAY, AT(pay_within_s), 0,
     STORE_PAY_WITHIN_S_MAX},
    {"segments", INTEGER, 0, STORE_GIVEN_SEGMENTS, AT(segments), 1,
     STORE_SEGMENTS_MAX},
    {"opens_at", TIME, 0, STORE_GIVEN_OPENS, AT(opens_ms), 0, 0},
    {"ends_at", TIME, 0, STORE_GIVEN_ENDS, AT(ends_ms), 0, 0},
    {0},
};
#undef AT

/* The body of a restock: one number, into an int64_t of its own. */
static const struct field restock_fields[] = {
    {"quantity", INTEGER, REQUIRED, 0, 0, 1, STORE_NUMBER_MAX},
    {0},
};

static const struct field payment_fields[] = {
    {"payment", WORD, REQUIRED, 0, 0, 0, STORE_PAYMENT_BYTES_MAX + 1},
    {0},
};

static const struct field *const documents[] = {
    [PARSE_ORDER] = order_fields,     [PARSE_PRODUCT] = product_fields,
    [PARSE_PATCH] = product_fields,   [PARSE_RESTOCK] = restock_fields,
    [PARSE_PAYMENT] = payment_fields,
};

/* Without this, jansson would seed its hash at the first object, on whichever thread
 * that is. The hash is keyed, so a client cannot send colliding names. */
void parse_init(void)
{
    json_object_seed(0);
}

/* The name of the field may come from the client. */
static void add_fault(struct parse_error *error, const char *field,
                      const char *detail)
{
    struct parse_fault *at;

    error->problem = PROBLEM_FIELDS;
    /* The reply has room for so many; the client mends these first. */
    if (error->faults_n == PARSE_FAULTS_MAX)
        return;
    at = &error->faults[error->faults_n++];
    at->detail = detail;
    /* Not cut in the middle of a character: long ones are not shown. */
    snprintf(at->field, sizeof(at->field), "%s",
             strlen(field) < sizeof(at->field) ? field : "(a long name)");
    if (error->faults_n == 1)
        snprintf(error->detail, sizeof(error->detail), "%s: %s", at->field,
                 detail);
}

/* The object, or NULL and what is wrong. Integers that do not fit, names that are there
 * twice, and "\u0000" are well-formed JSON: they are faults of fields, and only jansson
 * happens to notice them while it parses. A NUL in the body it does not always notice:
 * behind a number it is passed over. */
static json_t *load(const char *body, size_t size, struct parse_error *error)
{
    json_error_t wrong;
    json_t *json;

    error->problem = PROBLEM_NONE;
    error->detail[0] = '\0';
    error->faults_n = 0;
    if (memchr(body, '\0', size)) {
        error->problem = PROBLEM_BAD_JSON;
        snprintf(error->detail, sizeof(error->detail), "it has a NUL in it");
        return NULL;
    }
    /* The depth is bounded by jansson, the size by the request check. */
    json = json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
                      &wrong);
    if (json_is_object(json))
        return json;
    error->problem = PROBLEM_FIELDS;
    if (json) {
        snprintf(error->detail, sizeof(error->detail),
                 "the body has to be a JSON object");
        json_decref(json);
        return NULL;
    }
    switch (json_error_code(&wrong)) {
    case json_error_duplicate_key:
    case json_error_numeric_overflow:
    case json_error_null_character:
    case json_error_null_byte_in_key:
        break;
    default:
        error->problem = PROBLEM_BAD_JSON;
    }
    snprintf(error->detail, sizeof(error->detail), "line %d, column %d: %s",
             wrong.line, wrong.column, wrong.text);
    /* jansson's message repeats some of the input, which may not be UTF-8. */
    for (char *c = error->detail; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return NULL;
}

/* RFC 3339 and UTC only, with at most three digits after the seconds: ".5" is 500 ms.
 * strptime() also takes spaces, and one digit for two; timegm() makes the 2nd of March
 * of the 30th of February. So the time is written again, and has to become the same
 * text. */
static bool read_time(const char *text, int64_t *ms)
{
    static const char format[] = "%Y-%m-%dT%H:%M:%S";
    struct tm utc = {0};
    const char *rest = strptime(text, format, &utc);
    int64_t seconds = timegm(&utc), fraction = 0, scale = 100;
    char again[32];
    size_t size = strftime(again, sizeof(again), format, &utc);

    if (!rest || seconds < 0 || rest != text + size ||
        memcmp(text, again, size) != 0)
        return false;
    if (*rest == '.' && isdigit((unsigned char)rest[1]))
        for (rest++; isdigit((unsigned char)*rest) && scale; scale /= 10)
            fraction += (*rest++ - '0') * scale;
    *ms = seconds * 1000 + fraction;
    return *ms > 0 && !strcmp(rest, "Z");
}

/* "1.0" is an integer as well, because some languages write it so. But jansson has
 * rounded all numbers with a point or an exponent by now. True: none of BODY has an
 * exponent, or other digits than zeros behind its point. */
static bool has_no_fractions(const char *body)
{
    bool in_string = false;

    for (; *body; body++) {
        if (*body == '"')
            in_string = !in_string;
        else if (in_string)
            body += *body == '\\';
        else if ((*body == '.' &&
                  isdigit((unsigned char)body[1 + strspn(body + 1, "0")])) ||
                 /* not the e of true */
                 (strchr("eE", *body) && isdigit((unsigned char)body[-1])))
            return false;
    }
    return true;
}

/* ---- documents -------------------------------------------------------------- */

/* NULL, and the value of BODY is in OUT, the field's place in the struct. Else what is
 * wrong, to be said after the field's name. */
static const char *read_field(const struct field *field, const json_t *value,
                              const char *body, void *out)
{
    double real = json_number_value(value);
    json_int_t number = json_integer_value(value);
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);

    switch (field->kind) {
    case INTEGER:
        if (!json_is_integer(value) &&
            !(json_is_real(value) && has_no_fractions(body)))
            return "has to be an integer";
        if (json_is_real(value)) /* it need not fit into an integer */
            number = real < 0                  ? -1
                     : real > STORE_NUMBER_MAX ? STORE_NUMBER_MAX + 1
                                               : (json_int_t)real;
        if (number < field->min)
            return field->min ? "has to be at least 1" : "must not be negative";
        if (number > field->max)
            return "is too large";
        *(int64_t *)out = number;
        return NULL;
    case TEXT:
    case WORD:
        if (!text)
            return "has to be a string";
        if (!size)
            return "must not be empty";
        if (size >= (size_t)field->max)
            return "is too long";
        /* Names go to terminals, some of which read U+009B as the escape '['. */
        for (const unsigned char *at = (const unsigned char *)text; *at; at++)
            if (*at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
                return "has a control character in it";
            else if (field->kind == WORD &&
                     (*at == ' ' || *at > '~' || *at == '"' || *at == '\\'))
                return "has to be visible ASCII, without quotes and "
                       "backslashes";
        /* The NUL is copied with the text; jansson has refused one inside it,
         * so that SIZE is the length. */
        memcpy(out, text, size + 1);
        return NULL;
    case TIME:
        *(int64_t *)out = 0;
        if (json_is_null(value) || (text && read_time(text, out)))
            return NULL;
        break;
    }
    return "has to be a UTC time such as 2030-01-01T12:00:00Z, or null";
}

bool parse_body(enum parse_document document, const char *body, size_t size,
                void *out, unsigned *given, struct parse_error *error)
{
    json_t *json = load(body, size, error), *value;
    const struct field *fields = documents[document], *field;
    const char *name, *wrong;
    bool patch = document == PARSE_PATCH;
    size_t known = 0;

    if (given)
        *given = 0;
    /* The body was no object: its error is all that can be said. */
    if (!json)
        return false;
    for (field = fields; field->name; field++) {
        void *at = (char *)out + field->at;

        /* The fields are asked for in the table's order, so that the faults are
         * told in the same order each time. */
        value = json_object_get(json, field->name);
        known += value != NULL;
        if (given && value)
            *given |= field->given;
        wrong = NULL;
        if (patch && (field->flags & REMOVABLE) && json_is_null(value))
            *(int64_t *)at = 0;
        else if (value)
            wrong = read_field(field, value, body, at);
        else if ((field->flags & REQUIRED) && !patch)
            wrong = "is missing";
        if (wrong)
            add_fault(error, field->name, wrong);
    }
    /* Unknown fields are told after what is wrong with the known ones. */
    /* The walk over all names is made only if there is one more than we know:
     * of an order there is none. */
    if (known < json_object_size(json))
        json_object_foreach(json, name, value)
        {
            for (field = fields; field->name && strcmp(field->name, name) != 0;)
                field++;
            if (!field->name)
                add_fault(error, name, "is not known here");
        }
    json_decref(json);
    return error->problem == PROBLEM_NONE;
}

void parse_add_faults(struct parse_error *error, unsigned given,
                      const char *detail)
{
    /* The faults of a write come as a set of fields: here they get their names
     * back. */
    for (const struct field *field = product_fields; field->name; field++)
        if (given & field->given)
            add_fault(error, field->name, detail);
}

/* The draft of the standard makes it a quoted string, with backslashes before quotes
 * and backslashes; most clients send it bare. Both mean the same key. */
bool parse_key(const char *text, char *key)
{
    bool quoted = *text == '"';
    size_t n = 0;

    text += quoted;
    while (*text && !(quoted && *text == '"')) {
        /* A backslash before any other sign has no meaning in the standard, and
         * two readers might give it two. */
        if (quoted && *text == '\\' && text[1] != '"' && text[1] != '\\')
            return false;
        text += quoted && *text == '\\';
        if (*text <= ' ' || *text > '~' || n == STORE_KEY_BYTES_MAX)
            return false;
        key[n++] = *text++;
    }
    key[n] = '\0';
    return n && !strcmp(text, quoted ? "\"" : "");
}

bool parse_number(const char *text, int64_t *number)
{
    size_t digits = strspn(text, "0123456789");

    /* Sixteen digits hold STORE_NUMBER_MAX and cannot overflow. */
    if (text[digits] || digits > 16 || *text == '0')
        return false;
    *number = strtoll(text, NULL, 10);
    return *number >= 1 && *number <= STORE_NUMBER_MAX;
}
