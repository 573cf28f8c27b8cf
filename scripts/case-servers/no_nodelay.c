/* A library to preload: TCP_NODELAY seems to succeed, but Nagle's algorithm stays on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int setsockopt(int socket, int level, int name, const void *value, socklen_t length)
{
	int (*next)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");

	if (level == IPPROTO_TCP && name == TCP_NODELAY)
		return 0;
	return next(socket, level, name, value, length);
}
