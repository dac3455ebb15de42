/*
 * Which locks a program has: those of libdlock, and those that it links and
 * registers besides. Asks for each of its arguments, as dlock_open() does.
 *
 *   cc -o strategies strategies.c $(pkg-config --cflags --libs dlock)
 *   cc -DWITH_SQL -o strategies strategies.c $(pkg-config --cflags --libs dlock-sql)
 *   cc -static -DWITH_QUORUM -o strategies strategies.c \
 *       $(pkg-config --static --cflags --libs dlock-quorum)
 *   ./strategies redis://127.0.0.1:6379 fenced setnx
 */
#include <dlock_more.h>
#include <stdio.h>

/* All that this program was linked with; NULL ends it. */
static const struct dlock_strategies *const parts[] = {
#ifdef WITH_QUORUM
    &dlock_quorum_strategies,
#endif
#ifdef WITH_SQL
    &dlock_sql_strategies,
#endif
#ifdef WITH_TLS
    &dlock_tls,
#endif
#ifdef WITH_ZK
    &dlock_zk_strategies,
#endif
    NULL};

int main(int argc, char *argv[])
{
    struct dlock_error error = {""};

    for (size_t i = 0; parts[i] != NULL; i++)
        if (dlock_register(parts[i], &error) != DLOCK_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
    for (size_t i = 0; dlock_strategy_info(i) != NULL; i++)
        printf("%s%s", i == 0 ? "" : " ", dlock_strategy_info(i)->name);
    printf("\n");
    for (int i = 2; i < argc; i++) {
        struct dlock_options options = {.strategy = argv[i], .url = argv[1]};
        struct dlock *client = NULL;

        snprintf(error.text, sizeof(error.text), "it is there");
        (void)dlock_open(&options, &client, &error);
        printf("%s\n", error.text);
        dlock_close(client);
    }
    return 0;
}
