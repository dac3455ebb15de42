# The Lua scripts of lock/: what each is put together from, in this order.
#
# A part is stored once, however many scripts have it. So a folder's scripts.inc
# has its parts, and for each script dlock_script_NAME: the parts, and the SHA-1 of
# them all, by which a server is asked for it.

# One Redis server.
scripts_redis      := acquire release force renew inspect \
    $(foreach lock,fenced fair,$(addprefix $(lock)_,acquire release force renew leave list))

lua_acquire        := redis/ask redis/wake_all redis/rights redis/numbers redis/acquire
lua_release        := redis/ask redis/numbers redis/wake_all redis/release
lua_force          := redis/ask redis/wake_all redis/rights redis/force
lua_renew          := redis/ask redis/wake_all redis/renew
lua_inspect        := redis/ask redis/inspect

lua_fenced_acquire := redis/ask redis/waiters redis/rights redis/numbers redis/waiters_ask redis/acquire
lua_fenced_release := redis/ask redis/numbers redis/waiters redis/waiters_end redis/release
lua_fenced_force   := redis/ask redis/waiters redis/rights redis/force
lua_fenced_renew   := redis/ask redis/waiters redis/renew
lua_fenced_leave   := redis/ask redis/numbers redis/waiters redis/waiters_leave
lua_fenced_list    := redis/ask redis/waiters redis/waiters_list

lua_fair_acquire   := redis/ask redis/fair_queue redis/rights redis/numbers redis/fair_turn redis/acquire
lua_fair_release   := redis/ask redis/numbers redis/fair_queue redis/waiters_end redis/release
lua_fair_force     := redis/ask redis/fair_queue redis/rights redis/force
lua_fair_renew     := redis/ask redis/fair_queue redis/renew
lua_fair_leave     := redis/ask redis/numbers redis/fair_queue redis/waiters_leave
lua_fair_list      := redis/ask redis/fair_queue redis/waiters_list

# Deadlocks.
scripts_deadlock   := look waits

lua_look           := redis/ask deadlock/follow deadlock/look
lua_waits          := redis/ask deadlock/follow deadlock/waits

# What multi and redlock need besides.
scripts_quorum     := quorum_fence server_age

lua_quorum_fence   := quorum/quorum_fence
lua_server_age     := redis/ask quorum/server_age

SCRIPT_FOLDERS := redis deadlock quorum
SCRIPT_INC     := $(SCRIPT_FOLDERS:%=$(B)/gen/lock/%/scripts.inc)
SCRIPT_H       := $(SCRIPT_FOLDERS:%=$(B)/gen/lock/%/scripts.h)
LUA            := $(patsubst lock/%,$(B)/gen/lock/%,$(wildcard lock/*/*.lua))

# Without comments and indents: a server need not keep them.
$(B)/gen/lock/%.lua: lock/%.lua
	@mkdir -p $(@D)
	$(Q)sed -e '/^ *--/d' -e '/^ *$$/d' -e 's/^ *//' $< >$@

# The files of script $(1); the names of what they become.
lua_files = $(patsubst %,$(B)/gen/lock/%.lua,$(lua_$(1)))
lua_parts = $(foreach part,$(notdir $(lua_$(1))),part_$(part),)

$(SCRIPT_INC): $(B)/gen/lock/%/scripts.inc: $(LUA) lock/scripts.mk
	@mkdir -p $(@D)
	$(Q){ $(foreach part,$(sort $(foreach name,$(scripts_$*),$(lua_$(name)))), \
	          echo 'static const char part_$(notdir $(part))[] ='; \
	          $(TEXT_TO_C) $(B)/gen/lock/$(part).lua; echo ';';) \
	      $(foreach name,$(scripts_$*), \
	          echo "const struct dlock_script dlock_script_$(name) = {"; \
	          echo "\"$$(cat $(call lua_files,$(name)) | sha1sum | cut -c 1-40)\", {$(call lua_parts,$(name))}};";) \
	    } >$@

$(SCRIPT_H): $(B)/gen/lock/%/scripts.h: lock/scripts.mk
	@mkdir -p $(@D)
	$(Q){ echo '#include "lock/redis/command.h"'; \
	      $(foreach name,$(scripts_$*), \
	          echo 'extern const struct dlock_script dlock_script_$(name);';) } >$@

# All of them, for the test that asks a server.
$(B)/gen/lock/scripts.inc: lock/scripts.mk
	@mkdir -p $(@D)
	$(Q){ $(foreach name,$(foreach folder,$(SCRIPT_FOLDERS),$(scripts_$(folder))), \
	          echo '{"$(name)", &dlock_script_$(name)},';) } >$@
