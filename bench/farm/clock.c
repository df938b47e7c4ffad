/* Shifts the date that a process sees by CLOCK_SECONDS, for a bench: LD_PRELOAD=clock.so CLOCK_SECONDS=300 belfry serve.
 * The clocks that do not tell the date (CLOCK_MONOTONIC, CLOCK_BOOTTIME) stay as they are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void)
{
	const char *seconds = getenv("CLOCK_SECONDS");
	return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, id, now);
	if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		now->tv_sec += shift();
	return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
	struct timespec exact;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &exact);
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *place)
{
	struct timespec exact;
	clock_gettime(CLOCK_REALTIME, &exact);
	if (place)
		*place = exact.tv_sec;
	return exact.tv_sec;
}
