// v1model has no such version.
#define V1MODEL_VERSION -1
#include <core.p4>
#include <v1model.p4>
