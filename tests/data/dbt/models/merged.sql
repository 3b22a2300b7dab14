{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id', on_schema_change='append_new_columns') }}
select id, amount {% if var('wider', false) %}, 'x' as note {% endif %} from incoming
