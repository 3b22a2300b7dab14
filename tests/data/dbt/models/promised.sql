{{ config(materialized='table') }}
select cast(id as int) as id, cast(amount as bigint) as amount from incoming
