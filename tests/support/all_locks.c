/* Every test has all locks of the build, as the program has. */
#include "lock/textbook/textbook.h"

__attribute__((constructor)) static void register_all(void)
{
    dlock_register_all();
}
