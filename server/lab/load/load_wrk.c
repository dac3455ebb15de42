#include "server/lab/load/load.h"
bool load_wrk(struct load *load)
{
    return site_fail(&load->site, "later");
}
