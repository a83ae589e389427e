#include "../../p4/conference.p4"
