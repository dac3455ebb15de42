/*
 * Segmented stock: dealt out, sold, gathered, given back, resized and evened
 * out in the middle of a sale; nothing stranded and nothing lost.
 */
#include "tests/support/store_story.h"

static const struct store_story stories[] = {
    {"units are dealt out evenly",
     "put units=10 segs=4; segments 3 3 2 2; product segs=4 units=10; "
     "restock 4 key=k; restock 4 key=k -> stock=14; segments 4 4 3 3; left 14"},
    /* There is always one in use. The last one moves no unit. */
    {"segments without a unit are retired",
     "put segs=8; segments 0; restock 3; segments 1 1 1; "
     "product segs=8 epoch=3; put segs=7; product epoch=4"},
    /* One, unless said otherwise. */
    {"one to 256 segments",
     "put segs=-1 -> range; put segs=257 -> range; put units=1000; "
     "segments 1000; put segs=256; a buys 1000 seg=255 -> seg=255; "
     "b buys 1 -> sold-out; left 0"},

    /* Another segment has enough, or not even all together have. In the end 7 was never
     * in use, and 3 is retired: nor is anything gathered there. */
    {"short is not sold out",
     "put units=12 segs=4; a buys 2 seg=2 -> seg=2 segs=4; segments 3 3 1 3; "
     "a buys 1; b buys 2 seg=2 -> short richest=1 number=0; "
     "b buys 1 seg=7 -> short richest=1; b buys 10 -> sold-out segs=4; "
     "b buys 10 seg=7 -> sold-out; b buys 1 seg=256 -> range; "
     "b buys 1 seg=-1 -> range; put segs=2; segments 5 4; "
     "b buys 1 seg=3 -> short richest=0; b buys 7 seg=3 -> short richest=0; "
     "left 9"},
    {"what is missing comes from the richest others, on record",
     "put units=12 segs=4; a buys 2 seg=1; a buys 1 seg=3; segments 3 1 3 2; "
     "b buys 10 seg=1 -> sold-out; a buys 6 seg=1 -> seg=1; segments 0 0 1 2; "
     "a is placed seg=1 qty=6; left 3; a cancels; a cancels -> again; "
     "segments 0 6 1 2; left 9"},
    /* It was sent to the richest before, and may not be sent for ever. */
    {"gathered on demand; its key finds it from elsewhere as well",
     "put units=10 segs=2; a buys 3; segments 2 5; b buys 4 key=k -> short; "
     "b buys 4 key=k gather -> seg=0; segments 0 3; "
     "c buys 4 key=k seg=1 gather -> again seg=0 same=b; left 3"},
    {"over the limit nothing is gathered",
     "put units=8 segs=4 limit=3; a buys 4 -> limit; segments 2 2 2 2; "
     "a buys 3; segments 0 1 2 2"},

    /* A cancel in a retired segment goes to the poorest. */
    {"resized in mid-sale",
     "put units=100 segs=10; a buys 9 seg=3; b buys 31 seg=4; "
     "product epoch=2; put segs=10; product epoch=2; put segs=3; "
     "product epoch=4; segments 20 20 20; b buys 2 seg=1; a cancels; "
     "segments 20 27 20; put segs=7; segments 10 10 10 10 9 9 9; put segs=1; "
     "segments 67; b buys 1 seg=6 -> short richest=0; left 67"},
    {"evened out",
     "put units=8 segs=8; a buys 1 seg=6; b buys 1; b buys 1 seg=1; "
     "b buys 1 seg=2; b buys 1 seg=3; b buys 1 seg=4; "
     "segments 0 0 0 0 0 1 0 1; product epoch=2; even; segments 1 1; "
     "product epoch=3; even -> again; product epoch=3; a cancels; "
     "segments 2 1; even; segments 1 1 1; even of=2 -> no-product; left 3"},
    /* Back to where the order was, though it is out of use: nobody looks there. */
    {"a stranded unit is found",
     "put units=16 segs=8; a buys 2 seg=7; put segs=4; "
     "units stranded=0 left=14; sql UPDATE orders SET state = 1, cancelled_ms "
     "= "
     "1; sql UPDATE segments SET stock = stock + 2 WHERE segment = 7; "
     "units stranded=2 left=16; audit stranded=2; b buys 16 -> sold-out; even; "
     "b buys 16"},
    /* The database adds them as doubles, which MariaDB writes with an exponent. */
    {"units of many products are added",
     "put units=max; put of=2 units=max; "
     "units stranded=0 left=18014398509481982"},
};
STORE_STORIES(stories)
