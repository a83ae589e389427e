"""The calls of BMv2's Thrift service `standard`."""

from reprise_thrift import client_class

from .ttypes import TYPES

# The types are also names of this module, as in modules from Thrift's compiler, for example
# `Standard.InvalidTableOperation`.
globals().update(TYPES)
Client = client_class(
    """
i64 bm_mt_get_num_entries cxt_id:i32 table_name:string !InvalidTableOperation
void bm_mt_clear_entries cxt_id:i32 table_name:string reset_default_entry:bool !InvalidTableOperation
i32 bm_mt_add_entry cxt_id:i32 table_name:string match_key:list<BmMatchParam> action_name:string action_data:list<binary> options:BmAddEntryOptions !InvalidTableOperation
void bm_mt_set_default_action cxt_id:i32 table_name:string action_name:string action_data:list<binary> !InvalidTableOperation
void bm_mt_reset_default_entry cxt_id:i32 table_name:string !InvalidTableOperation
void bm_mt_delete_entry cxt_id:i32 table_name:string entry_handle:i32 !InvalidTableOperation
void bm_mt_modify_entry cxt_id:i32 table_name:string entry_handle:i32 action_name:string action_data:list<binary> !InvalidTableOperation
void bm_mt_set_entry_ttl cxt_id:i32 table_name:string entry_handle:i32 timeout_ms:i32 !InvalidTableOperation
i32 bm_mt_act_prof_add_member cxt_id:i32 act_prof_name:string action_name:string action_data:list<binary> !InvalidTableOperation
void bm_mt_act_prof_delete_member cxt_id:i32 act_prof_name:string mbr_handle:i32 !InvalidTableOperation
void bm_mt_act_prof_modify_member cxt_id:i32 act_prof_name:string mbr_handle:i32 action_name:string action_data:list<binary> !InvalidTableOperation
i32 bm_mt_act_prof_create_group cxt_id:i32 act_prof_name:string !InvalidTableOperation
void bm_mt_act_prof_delete_group cxt_id:i32 act_prof_name:string grp_handle:i32 !InvalidTableOperation
void bm_mt_act_prof_add_member_to_group cxt_id:i32 act_prof_name:string mbr_handle:i32 grp_handle:i32 !InvalidTableOperation
void bm_mt_act_prof_remove_member_from_group cxt_id:i32 act_prof_name:string mbr_handle:i32 grp_handle:i32 !InvalidTableOperation
list<BmMtActProfMember> bm_mt_act_prof_get_members cxt_id:i32 act_prof_name:string !InvalidTableOperation
BmMtActProfMember bm_mt_act_prof_get_member cxt_id:i32 act_prof_name:string mbr_handle:i32 !InvalidTableOperation
list<BmMtActProfGroup> bm_mt_act_prof_get_groups cxt_id:i32 act_prof_name:string !InvalidTableOperation
BmMtActProfGroup bm_mt_act_prof_get_group cxt_id:i32 act_prof_name:string grp_handle:i32 !InvalidTableOperation
i32 bm_mt_indirect_add_entry cxt_id:i32 table_name:string match_key:list<BmMatchParam> mbr_handle:i32 options:BmAddEntryOptions !InvalidTableOperation
void bm_mt_indirect_modify_entry cxt_id:i32 table_name:string entry_handle:i32 mbr_handle:i32 !InvalidTableOperation
void bm_mt_indirect_delete_entry cxt_id:i32 table_name:string entry_handle:i32 !InvalidTableOperation
void bm_mt_indirect_set_entry_ttl cxt_id:i32 table_name:string entry_handle:i32 timeout_ms:i32 !InvalidTableOperation
void bm_mt_indirect_set_default_member cxt_id:i32 table_name:string mbr_handle:i32 !InvalidTableOperation
void bm_mt_indirect_reset_default_entry cxt_id:i32 table_name:string !InvalidTableOperation
i32 bm_mt_indirect_ws_add_entry cxt_id:i32 table_name:string match_key:list<BmMatchParam> grp_handle:i32 options:BmAddEntryOptions !InvalidTableOperation
void bm_mt_indirect_ws_modify_entry cxt_id:i32 table_name:string entry_handle:i32 grp_handle:i32 !InvalidTableOperation
void bm_mt_indirect_ws_set_default_group cxt_id:i32 table_name:string grp_handle:i32 !InvalidTableOperation
BmCounterValue bm_mt_read_counter cxt_id:i32 table_name:string entry_handle:i32 !InvalidTableOperation
void bm_mt_reset_counters cxt_id:i32 table_name:string !InvalidTableOperation
void bm_mt_write_counter cxt_id:i32 table_name:string entry_handle:i32 value:BmCounterValue !InvalidTableOperation
void bm_mt_set_meter_rates cxt_id:i32 table_name:string entry_handle:i32 rates:list<BmMeterRateConfig> !InvalidTableOperation
list<BmMeterRateConfig> bm_mt_get_meter_rates cxt_id:i32 table_name:string entry_handle:i32 !InvalidTableOperation
list<BmMtEntry> bm_mt_get_entries cxt_id:i32 table_name:string !InvalidTableOperation
BmMtEntry bm_mt_get_entry cxt_id:i32 table_name:string entry_handle:i32 !InvalidTableOperation
BmActionEntry bm_mt_get_default_entry cxt_id:i32 table_name:string !InvalidTableOperation
BmMtEntry bm_mt_get_entry_from_key cxt_id:i32 table_name:string match_key:list<BmMatchParam> options:BmAddEntryOptions !InvalidTableOperation
BmCounterValue bm_counter_read cxt_id:i32 counter_name:string index:i32 !InvalidCounterOperation
void bm_counter_reset_all cxt_id:i32 counter_name:string !InvalidCounterOperation
void bm_counter_write cxt_id:i32 counter_name:string index:i32 value:BmCounterValue !InvalidCounterOperation
void bm_learning_ack cxt_id:i32 list_id:i32 buffer_id:i64 sample_ids:list<i32> !InvalidLearnOperation
void bm_learning_ack_buffer cxt_id:i32 list_id:i32 buffer_id:i64 !InvalidLearnOperation
void bm_learning_set_timeout cxt_id:i32 list_id:i32 timeout_ms:i32 !InvalidLearnOperation
void bm_learning_set_buffer_size cxt_id:i32 list_id:i32 nb_samples:i32 !InvalidLearnOperation
void bm_load_new_config config_str:string !InvalidSwapOperation
void bm_swap_configs !InvalidSwapOperation
void bm_meter_array_set_rates cxt_id:i32 meter_array_name:string rates:list<BmMeterRateConfig> !InvalidMeterOperation
void bm_meter_set_rates cxt_id:i32 meter_array_name:string index:i32 rates:list<BmMeterRateConfig> !InvalidMeterOperation
list<BmMeterRateConfig> bm_meter_get_rates cxt_id:i32 meter_array_name:string index:i32 !InvalidMeterOperation
i64 bm_register_read cxt_id:i32 register_array_name:string idx:i32 !InvalidRegisterOperation
list<i64> bm_register_read_all cxt_id:i32 register_array_name:string !InvalidRegisterOperation
void bm_register_write cxt_id:i32 register_array_name:string index:i32 value:i64 !InvalidRegisterOperation
void bm_register_write_range cxt_id:i32 register_array_name:string start_index:i32 end_index:i32 value:i64 !InvalidRegisterOperation
void bm_register_reset cxt_id:i32 register_array_name:string !InvalidRegisterOperation
void bm_parse_vset_add cxt_id:i32 parse_vset_name:string value:binary !InvalidParseVSetOperation
void bm_parse_vset_remove cxt_id:i32 parse_vset_name:string value:binary !InvalidParseVSetOperation
list<binary> bm_parse_vset_get cxt_id:i32 parse_vset_name:string !InvalidParseVSetOperation
void bm_parse_vset_clear cxt_id:i32 parse_vset_name:string !InvalidParseVSetOperation
void bm_dev_mgr_add_port iface_name:string port_num:i32 pcap_path:string !InvalidDevMgrOperation
void bm_dev_mgr_remove_port port_num:i32 !InvalidDevMgrOperation
list<DevMgrPortInfo> bm_dev_mgr_show_ports !InvalidDevMgrOperation
BmConfig bm_mgmt_get_info
void bm_set_crc16_custom_parameters cxt_id:i32 calc_name:string crc16_config:BmCrc16Config !InvalidCrcOperation
void bm_set_crc32_custom_parameters cxt_id:i32 calc_name:string crc32_config:BmCrc32Config !InvalidCrcOperation
void bm_set_toeplitz_hash_key cxt_id:i32 calc_name:string key:binary !InvalidToeplitzHashOperation
void bm_reset_state
string bm_get_config
binary bm_get_config_md5
i32 bm_get_id_from_name cxt_id:i32 resource_type:BmResourceType resource_name:string !InvalidIdLookup
string bm_serialize_state
""",
    TYPES,
)
