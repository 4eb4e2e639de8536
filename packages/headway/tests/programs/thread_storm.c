#include <pthread.h>
#include <unistd.h>
static void *end(void *x) { return x; }
int main(void)
{
	pthread_t t[20];
	for (;;) {
		for (int i = 0; i < 20; i++)
			pthread_create(&t[i], 0, end, 0);
		for (int i = 0; i < 20; i++)
			pthread_join(t[i], 0);
		usleep(2000);
	}
}
