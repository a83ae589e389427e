"""The types for the calls of BMv2's Thrift service `standard`."""

from reprise_thrift import declare

TYPES = declare("""
enum BmMatchParamType EXACT=0 LPM=1 TERNARY=2 VALID=3 RANGE=4
struct BmMatchParamExact key:binary
struct BmMatchParamLPM key:binary prefix_length:i32
struct BmMatchParamTernary key:binary mask:binary
struct BmMatchParamValid key:bool
struct BmMatchParamRange start:binary end_:binary
struct BmMatchParam type:BmMatchParamType exact:BmMatchParamExact lpm:BmMatchParamLPM ternary:BmMatchParamTernary valid:BmMatchParamValid range:BmMatchParamRange
struct BmAddEntryOptions priority:i32
struct BmCounterValue bytes:i64 packets:i64
struct BmMeterRateConfig units_per_micros:double burst_size:i32
enum TableOperationErrorCode TABLE_FULL=1 INVALID_HANDLE=2 EXPIRED_HANDLE=3 COUNTERS_DISABLED=4 METERS_DISABLED=5 AGEING_DISABLED=6 INVALID_TABLE_NAME=7 INVALID_ACTION_NAME=8 WRONG_TABLE_TYPE=9 INVALID_MBR_HANDLE=10 MBR_STILL_USED=11 MBR_ALREADY_IN_GRP=12 MBR_NOT_IN_GRP=13 INVALID_GRP_HANDLE=14 GRP_STILL_USED=15 EMPTY_GRP=16 DUPLICATE_ENTRY=17 BAD_MATCH_KEY=18 INVALID_METER_OPERATION=19 DEFAULT_ACTION_IS_CONST=20 DEFAULT_ENTRY_IS_CONST=21 NO_DEFAULT_ENTRY=22 INVALID_ACTION_PROFILE_NAME=23 NO_ACTION_PROFILE_SELECTION=24 IMMUTABLE_TABLE_ENTRIES=25 BAD_ACTION_DATA=26 NO_TABLE_KEY=27 ERROR=100
exception InvalidTableOperation code:TableOperationErrorCode
enum CounterOperationErrorCode INVALID_COUNTER_NAME=1 INVALID_INDEX=2 ERROR=3
exception InvalidCounterOperation code:CounterOperationErrorCode
enum SwapOperationErrorCode CONFIG_SWAP_DISABLED=1 ONGOING_SWAP=2 NO_ONGOING_SWAP=3
exception InvalidSwapOperation code:SwapOperationErrorCode
enum MeterOperationErrorCode INVALID_METER_NAME=1 INVALID_INDEX=2 BAD_RATES_LIST=3 INVALID_INFO_RATE_VALUE=4 INVALID_BURST_SIZE_VALUE=5 ERROR=6
exception InvalidMeterOperation code:MeterOperationErrorCode
enum RegisterOperationErrorCode INVALID_REGISTER_NAME=1 INVALID_INDEX=2 ERROR=3
exception InvalidRegisterOperation code:RegisterOperationErrorCode
enum ParseVSetOperationErrorCode INVALID_PARSE_VSET_NAME=1 ERROR=2
exception InvalidParseVSetOperation code:ParseVSetOperationErrorCode
enum LearnOperationErrorCode INVALID_LIST_ID=1 INVALID_LIST_NAME=2 ERROR=3
exception InvalidLearnOperation code:LearnOperationErrorCode
enum DevMgrErrorCode ERROR=1
exception InvalidDevMgrOperation code:DevMgrErrorCode
struct DevMgrPortInfo port_num:i32 iface_name:string is_up:bool extra:map<string,string>
struct BmCrc16Config polynomial:i16 initial_remainder:i16 final_xor_value:i16 data_reflected:bool remainder_reflected:bool
struct BmCrc32Config polynomial:i32 initial_remainder:i32 final_xor_value:i32 data_reflected:bool remainder_reflected:bool
enum CrcErrorCode INVALID_CALCULATION_NAME=1 WRONG_TYPE_CALCULATION=2 INVALID_CONFIG=3
exception InvalidCrcOperation code:CrcErrorCode
enum ToeplitzHashErrorCode INVALID_CALCULATION_NAME=1 WRONG_TYPE_CALCULATION=2 INVALID_KEY=3
exception InvalidToeplitzHashOperation code:ToeplitzHashErrorCode
enum BmActionEntryType NONE=0 ACTION_DATA=1 MBR_HANDLE=2 GRP_HANDLE=3
struct BmActionEntry action_type:BmActionEntryType action_name:string action_data:list<binary> mbr_handle:i32 grp_handle:i32
struct BmMtEntryLife timeout_ms:i32 time_since_hit_ms:i32
struct BmMtEntry match_key:list<BmMatchParam> options:BmAddEntryOptions entry_handle:i32 action_entry:BmActionEntry life:BmMtEntryLife
struct BmMtActProfMember mbr_handle:i32 action_name:string action_data:list<binary>
struct BmMtActProfGroup grp_handle:i32 mbr_handles:list<i32>
struct BmConfig device_id:i64 thrift_port:i32 notifications_socket:string elogger_socket:string debugger_socket:string
enum BmResourceType MATCH_TABLE=0 ACTION_PROFILE=1 COUNTER=2 METER=3 REGISTER=4 LEARNING_LIST=5
enum IdLookupErrorCode INVALID_RESOURCE_TYPE=0 INVALID_RESOURCE_NAME=1
exception InvalidIdLookup code:IdLookupErrorCode
""")
globals().update(TYPES)
__all__ = list(TYPES)
