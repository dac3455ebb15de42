/*
 * The textbook's way. It must be able to go wrong, on demand and every time,
 * or the laboratory teaches nothing; and the fence must stop exactly the writer
 * that comes too late.
 */
#include "tests/support/store_story.h"

static const struct store_story stories[] = {
    {"it checks what textbooks check",
     "put units=5 limit=3; put of=2 units=1 ends=1; a looks 2 key=key; "
     "write 3; a inserts; b looks 2 key=key -> again; "
     "b looks 1 key=key -> key-reused; b looks 2 -> limit; b looks 1; "
     "b looks 4 user=2 -> sold-out stock=3; b looks 0 user=2 -> range; "
     "b looks 1 of=9 user=2 -> no-product; b looks 1 of=2 user=2 -> ended; "
     "left 3"},

    /* Together it is wrong: the unique key stops the second row, but its stock is gone. */
    {"two with one key lose a unit",
     "put units=10; a looks 1 key=key; b looks 1 key=key; write 9; a inserts; "
     "write 8; b inserts -> again same=a; "
     "c inserts 1 user=2 key=key -> key-reused; audit undersold=1"},
    /* Its order says over which. */
    {"a write that nobody has judged goes over the limit",
     "put units=5 limit=3; write 1; a inserts 4; audit over_limit=1"},

    /* The holder whose lease ran out while it was thinking writes first: to compare only
     * now would let it through. So much does the known wrong way, too, which announces by
     * writing. */
    {"a stamp stops the old holder",
     "put units=1; stamp lock/33; a looks 1; stamp lock/34; b looks 1 user=2; "
     "write 0 under=lock/33 -> stale-fence; "
     "a inserts under=lock/33 -> stale-fence; write 0 under=lock/34; "
     "b inserts under=lock/34 -> fence=34; stamp lock/33 -> stale-fence; "
     "write 1 under=lock/33 late -> stale-fence; left 0"},
    {"a token nobody has announced is not taken, be it ever so high",
     "put units=1; write 0 under=lock/7 -> stale-fence; stamp lock/7; "
     "stamp lock/7; write 1 under=lock/7; "
     "write 0 under=lock/8 -> stale-fence; floor lock 7; floor other 0; "
     "floor lock 0 of=2 -> no-product"},
    /* A lock server that lost its data before the first holder announced itself gives
     * the second one the same token. */
    {"of two owners of one token only one may write",
     "put units=1; stamp lock/1/owner-a; stamp lock/1/owner-a; "
     "stamp lock/1/owner-b -> stale-fence; a looks 1; "
     "write 0 under=lock/1/owner-b -> stale-fence; "
     "a inserts under=lock/1/owner-b -> stale-fence; "
     "write 0 under=lock/1/owner-a; a inserts under=lock/1/owner-a; left 0"},
};
STORE_STORIES(stories)
