{{ config(materialized='incremental', incremental_strategy='append') }}
select id, amount from incoming
