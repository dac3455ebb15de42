/*
 * The request target: "/api/orders/7?key=a%2Fb" as path and query, decoded
 * once and strictly. What a proxy before us could understand
 * differently ("..", "%2f", "%00", a backslash) is refused, not repaired.
 */
#ifndef TARGET_H
#define TARGET_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Decodes the path of TARGET into PATH, which has room for target_size + 1
 * bytes, and points *QUERY to what follows the "?", or to "". NULL if all is
 * well, or else what is wrong, as static text.
 */
const char *target_split(const char *target, size_t target_size, char *path,
                         const char **query);

/* Whether a name is in the query, and whether its value can be used. */
enum target_found { TARGET_ABSENT, TARGET_FOUND, TARGET_BAD };

/*
 * Looks NAME up in a query and decodes its value into VALUE. TARGET_BAD if it
 * is malformed, too long or there twice.
 */
enum target_found target_query(const char *query, const char *name, char *value,
                               size_t value_size);

#endif
