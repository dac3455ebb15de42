/*
 * The table of settings. Whatever is said about a setting anywhere (default, flag,
 * environment, file, help, error text) is read from its row.
 */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum setting_kind { TEXT, NUMBER, CHOICE, LOCK, FLAG };

enum setting_secret { SECRET_NONE, SECRET_IN_URL, SECRET_WHOLE };

struct setting {
    enum setting_kind kind;
    enum setting_secret secret; /* that nobody may see */
    const char *name;           /* without the dashes */
    size_t offset;              /* into struct config */
    size_t size;                /* of the field there */
    const char *value; /* what it takes; of a choice, its words in the order
                           of the enum */
    const char *preset;
    int64_t min, max; /* of a number; of a text its shortest, if it is given */
    const char *help;
};

#define CONFIG_TABLE_MAX 40

extern const struct setting config_table[];
extern const size_t config_table_n; /* rows; CONFIG_TABLE_MAX at most */

/* Of which the name of a setting is made. */
#define CONFIG_NAME_BYTES                                                      \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

/* The place of NAME in the table; config_table_n: it is not there. */
size_t config_find(const char *name);

/* The setting that is probably meant by NAME; NULL: none is like it. */
const char *config_nearest(const char *name);

#endif
