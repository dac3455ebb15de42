/*
 * The checks, one per property, by family. Each runs in a process of its own
 * and ends it with testbed_holds(), _fails() or _untested().
 */
#ifndef CHECK_H
#define CHECK_H

#include "server/lab/conform/testbed.h"

typedef void conform_check(struct testbed *testbed);

/* alone.c */
conform_check conform_check_x;
conform_check conform_check_x2;
conform_check conform_check_l;

/* crash.c */
conform_check conform_check_c;
conform_check conform_check_a;

/* owner.c */
conform_check conform_check_p;
conform_check conform_check_r;
conform_check conform_check_n;
conform_check conform_check_n2;

/* late.c */
conform_check conform_check_d;

/* wait.c */
conform_check conform_check_w;
conform_check conform_check_h;
conform_check conform_check_f;

/* loss.c */
conform_check conform_check_m;
conform_check conform_check_m2;
conform_check conform_check_s;

/* zk.c: the same of locks in ZooKeeper, which lose the server that is ROLE. */
_Noreturn void conform_lose_zk(struct testbed *testbed, char role,
                               const char *when);

#endif
